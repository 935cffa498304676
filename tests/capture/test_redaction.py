"""Claim: every text passes the redaction, by what its column says, or not at all."""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from capture.errors import CaptureError
from capture.fact_columns import CLOCK, FACTS
from capture.kept_words import is_path_word, is_process_name
from capture.layout import LAYOUTS
from capture.leaks import LeakError, search_bundle
from capture.own_words import is_own
from capture.probes import known_symbols
from capture.pseudonyms import Mapping, SiteKey, read_mapping, read_site_key
from capture.redaction import HEADER_TYPES, Redaction
from capture.seal import seal
from capture.site_names import SiteNames
from capture.spool import FRAMES_NAME, SpoolReader, SpoolWriter
from capture.syscalls import syscall_names
from tests.capture.spools import CLOCK as READING
from tests.capture.spools import HEADER, end, lines, probe, spool

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
NAMES = SiteNames(hosts=frozenset({"gandalf-login"}), users=frozenset({"frodobaggins"}))
HEX = "[0-9a-f]{16}"


@pytest.fixture
def redaction(tmp_path: Path) -> Redaction:
    return Redaction(SiteKey(bytes(range(32))), Mapping(tmp_path / "map"), NAMES)


def value(redaction: Redaction, fact: str, column: str, text: str) -> str:
    (row,) = redaction.rows([{"fact": fact, column: text}])
    return row[column]


def test_every_text_column_says_what_it_holds() -> None:
    texts = [
        (kind, key.name, key.redaction)
        for kind, keys in FACTS.items()
        for key in keys
        if key.type_name in ("string", "array")
    ]

    assert [text for text in texts if text[2] is None] == []
    assert all(key.type_name == "integer" for key in CLOCK)


def test_event_records_hold_numbers_alone() -> None:
    codes = {field.code for layout in LAYOUTS.values() for field in layout.fields}

    assert codes <= set("bhiqBHIQ")


def test_every_type_that_a_column_names_is_known(redaction: Redaction) -> None:
    known = {key.redaction for keys in FACTS.values() for key in keys}

    for kind in (known | set(HEADER_TYPES.values())) - {None}:
        assert kind in redaction._types


def test_a_column_that_says_nothing_becomes_a_pseudonym(redaction: Redaction) -> None:
    row = {"fact": "process", "pid": 7, "nickname": "frodo", "more": ["a b", 3]}

    (shown,) = redaction.rows([row])

    assert shown["pid"] == 7
    assert re.fullmatch(f"text-{HEX}", shown["nickname"])
    assert re.fullmatch(f"text-{HEX}", shown["more"][0])
    assert shown["more"][1] == 3
    header = redaction.header({"host": {}, "capture": {"motto": "one ring"}})
    assert re.fullmatch(f"text-{HEX}", header["capture"]["motto"])


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/usr/lib/libnccl.so.2", "/usr/lib/libnccl.so.2"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("/lib64/libpython3.11.so.1.0", "/lib64/libpython3.11.so.1.0"),
        ("/usr/lib/libmiddle-earth.so.2.18.3", "/usr/lib/P.so.2.18.3"),
        ("/usr/lib/libx-10.159.14.1.so", "/usr/lib/P.so"),
        ("/home/bin/run", "/P/U/run"),
        ("/opt/frodobaggins/bin/x", "/opt/U/bin/P"),
        ("/opt/gandalf-login/bin", "/opt/H/bin"),
        ("/usr/bin/trial (deleted)", "/usr/bin/P (deleted)"),
        ("[vdso]", "[vdso]"),
        ("[heap of frodo]", "P"),
        ("", ""),
        ("../etc", "../etc"),
    ],
)
def test_paths_are_changed_by_component(
    path: str, shown: str, redaction: Redaction
) -> None:
    found = value(redaction, "library", "path", path)

    classes = {"P": "path", "U": "user", "H": "host"}
    pattern = "".join(
        f"{classes[c]}-{HEX}" if c in classes else re.escape(c) for c in shown
    )
    assert re.fullmatch(pattern, found)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("10.0.0.7", "private"),
        ("fd00::7", "private"),
        ("8.8.8.8", "public"),
        ("2600::1", "public"),
        ("169.254.1.2", "linklocal"),
        ("fe80::1%eth0", "linklocal"),
        ("[fe80::1]", "linklocal"),
        ("::ffff:10.0.0.7", "private"),
    ],
)
def test_addresses_keep_their_kind(
    address: str, kind: str, redaction: Redaction
) -> None:
    job = value(redaction, "process", "job_id", f"rendezvous:{address}:29500")

    assert re.match(rf"rendezvous:address-{kind}-{HEX}(%word-{HEX})?:29500$", job)
    assert address.strip("[]") not in job


def test_one_thing_has_one_pseudonym_however_it_is_written(
    redaction: Redaction,
) -> None:
    short = value(redaction, "host", "host_name", "Gandalf")
    long = value(redaction, "host", "host_name", "gandalf.shire.example")
    job = value(redaction, "rank", "job_id", "rendezvous:gandalf:1234")

    assert re.fullmatch(rf"{short}\.domain-{HEX}", long)
    assert job == f"rendezvous:{short}:1234"
    mapped = value(redaction, "rank", "job_id", "rendezvous:::ffff:10.0.0.7:1")
    plain = value(redaction, "rank", "job_id", "rendezvous:10.0.0.7:1")
    assert mapped == plain


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [
        ("python3", True),
        ("python3.11", True),
        ("pt_main_thread", True),
        ("kworker/3", True),
        ("trainer-foobarb", False),
        ("kworker/3-frodo", False),
        ("python3-frodo", False),
    ],
)
def test_names_are_kept_or_changed_as_a_whole(
    name: str,
    is_kept: bool,  # noqa: FBT001
    redaction: Redaction,
) -> None:
    found = value(redaction, "thread", "thread_name", name)

    assert found == name if is_kept else re.fullmatch(f"name-{HEX}", found)


def test_settings_keep_numbers_and_known_words(redaction: Redaction) -> None:
    kernel = value(redaction, "host", "kernel_release", "6.8.0-60-mordor.el9.x86_64")
    build = value(
        redaction, "config", "value", "#1 SMP PREEMPT_DYNAMIC Mon Feb 3 UTC 2025"
    )

    assert re.fullmatch(rf"6\.8\.0-60-word-{HEX}\.el9\.x86_64", kernel)
    assert build == "#1 SMP PREEMPT_DYNAMIC Mon Feb 3 UTC 2025"
    assert value(
        redaction, "config", "value", "x16 of x16, at most 32.0 GT/s PCIe"
    ) == ("x16 of x16, at most 32.0 GT/s PCIe")


def test_sentences_lose_paths_addresses_and_names(redaction: Redaction) -> None:
    text = "cannot open /opt/ring/a.so: refused by gandalf-login at 192.0.2.7"

    found = value(redaction, "probe", "refused_reason", text)

    assert re.fullmatch(
        rf"cannot open /opt/path-{HEX}/path-{HEX}\.so: refused by host-{HEX} at "
        rf"address-private-{HEX}",
        found,
    )


def test_the_mapping_is_on_the_disk_before_the_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapping = tmp_path / "map"
    redaction = Redaction(SiteKey(bytes(range(32))), Mapping(mapping), NAMES)
    writer = SpoolWriter(tmp_path / "s", HEADER, redaction)
    known: list[set[str]] = []
    monkeypatch.setattr(
        writer, "append", lambda *_: known.append(set(read_mapping(mapping).values()))
    )

    writer.append_rows("facts", [{"fact": "thread", "thread_name": "frodo"}])
    monkeypatch.undo()
    writer.close()

    assert "frodo" in known[0]
    assert "hosta" in known[0]


def test_a_mapping_is_continued_and_never_repeated(tmp_path: Path) -> None:
    for names in (("a1", "b1"), ("b1", "c1")):
        redaction = Redaction(
            SiteKey(bytes(range(32))), Mapping(tmp_path / "map"), NAMES
        )
        redaction.rows([{"fact": "thread", "thread_name": name} for name in names])
        redaction.mapping.close()

    rows = [json.loads(line) for line in (tmp_path / "map").read_text().splitlines()]
    assert [row["original"] for row in rows] == ["a1", "b1", "c1"]
    assert all(row["pseudonym"].startswith(f"{row['class']}-") for row in rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.unlink(), "No such file"),
        (lambda path: path.chmod(0o640), "mode 0640: others may use it"),
        (lambda path: path.write_bytes(b"short"), "is not 32 to 4096 bytes"),
        (lambda path: path.write_bytes(bytes(64)), "is not random"),
        (lambda path: (path.unlink(), path.mkdir()), "Is a directory"),
    ],
)
def test_a_key_file_that_will_not_do_is_refused(
    change: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    assert len(read_site_key(key).key_id) == 8
    change(key)

    with pytest.raises(CaptureError, match=message):
        read_site_key(key)


def test_a_mapping_that_others_can_read_or_that_is_a_link_is_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "open").touch(mode=0o644)
    (tmp_path / "link").symlink_to(tmp_path / "new")

    with pytest.raises(CaptureError, match="mode 0600"):
        Mapping(tmp_path / "open")
    with pytest.raises(CaptureError, match="cannot write mapping"):
        Mapping(tmp_path / "link")


def test_no_module_uses_a_hash_that_fips_refuses() -> None:
    weak = {"md5", "sha1", "new", "md4", "blake2b", "blake2s"}
    found = [
        (path.name, node.attr)
        for folder in ("capture", "workbench")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "hashlib"
    ]

    assert ("pseudonyms.py", "sha256") in found
    assert [use for use in found if use[1] in weak] == []


# The search of a finished bundle.


def redacted_spool(folder: Path, mapping: Path, *rows: dict[str, Any]) -> Path:
    redaction = Redaction(SiteKey(bytes(range(32))), Mapping(mapping), NAMES)
    writer = SpoolWriter(folder, HEADER, redaction)
    writer.append_rows("facts", list(rows))
    writer.append_rows("clock", [READING])
    writer.append_rows("end", [json.loads(end(facts=[]))])
    writer.close()
    redaction.mapping.close()
    return folder


def thread(tid: int, name: str) -> dict[str, Any]:
    return {
        "fact": "thread",
        "pid": 7,
        "tid": tid,
        "start_ticks": 1,
        "thread_name": name,
        "first_ns": 1,
    }


def test_a_bundle_with_a_leak_gets_no_name_and_the_spool_stays(
    tmp_path: Path,
) -> None:
    mapping = tmp_path / "map"
    folder = redacted_spool(tmp_path / "s", mapping, thread(1, "sauron-the-dark"))
    reader = SpoolReader(folder)
    kinds = reader.header["kinds"]
    reader.close()
    leaking = spool(
        tmp_path / "leaking",
        ("facts", lines(probe(1, "off_cpu", refused_reason="as sauro said"))),
        ("end", end()),
    )
    header = json.loads((folder / "header.json").read_bytes())
    assert kinds == json.loads((leaking / "header.json").read_bytes())["kinds"]
    (leaking / "header.json").write_text(json.dumps(header))
    out = tmp_path / "out"
    out.mkdir()

    with pytest.raises(LeakError, match=r"facts/probe\.jsonl: 'sauro' of"):
        seal(leaking, out, mapping=mapping)
    with pytest.raises(LeakError, match="must be searched"):
        seal(leaking, out)

    assert list(out.iterdir()) == []
    assert (leaking / FRAMES_NAME).exists()
    assert seal(folder, out, mapping=mapping).exists()


@pytest.mark.parametrize(
    ("name", "text", "is_leak"),
    [
        ("sauron", "of SAURON", True),
        ("sauron-the-dark", "sauro", True),
        ("sauron", "saur", False),
        ("orc", "an orc came", True),
        ("orc", "torchrun", False),
        ("localhostess", "local_rank", False),
        ("sauró-dark", "saur\\u00f3", True),
        ("12345", "12345", False),
        ("deadbee", "5f2cdeadbee77", False),
        ("deadbee", "a deadbee", True),
        ("user-99.slice", "user-0123456789abcdef", False),
    ],
)
def test_what_counts_as_a_leak(
    name: str,
    text: str,
    is_leak: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    mapping = tmp_path / "map"
    rows = [{"class": "name", "pseudonym": "name-" + "0" * 16, "original": name}]
    if text.startswith("user-"):
        rows.append({"class": "user", "pseudonym": text, "original": "x"})
    mapping.write_text("".join(json.dumps(row) + "\n" for row in rows))
    bundle = seal(
        spool(
            tmp_path / "s",
            (
                "facts",
                lines(probe(1, "off_cpu")).replace(b"ncclAllReduce", text.encode(), 1),
            ),
            ("end", end()),
        ),
        tmp_path,
    )

    found = search_bundle(bundle, mapping, SiteNames())

    assert {leak.original for leak in found.leaks} == ({name} if is_leak else set())


def test_what_every_bundle_holds_is_no_leak() -> None:
    keys = {key.name for keys in FACTS.values() for key in keys}
    columns = {field.name for layout in LAYOUTS.values() for field in layout.fields}

    for word in (*known_symbols(), *keys, *columns, *syscall_names("x86_64").values()):
        assert is_own(word.lower().encode()), word
    for word in ("sauron", "10.0.0.7", "2026", "all_reduce_of_mordor"):
        assert not is_own(word.encode())


def test_the_name_of_the_file_is_searched_too(tmp_path: Path) -> None:
    mapping = tmp_path / "map"
    mapping.touch()
    bundle = seal(spool(tmp_path / "s", ("end", end())), tmp_path)
    bundle = bundle.rename(tmp_path / "of-mordor.bundle")

    found = search_bundle(bundle, mapping, SiteNames(hosts=frozenset({"mordor"})))

    assert [leak.place for leak in found.leaks] == ["file name"]


def test_the_kept_lists_name_nothing_of_a_site() -> None:
    for word in ("home", "scratch", "data", "alice", "libfoo.so", "cluster"):
        assert not is_path_word(word)
        assert not is_process_name(word)
