"""Claim: case 12 of the field study; nothing of a site leaves it where a key is given.

Two real recordings, of two hosts by name, each of processes of a user with secrets in
their command lines, searched by plain means that share nothing with ``verify --leaks``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.capture.live import PYTHON, ROOT
from tests.capture.processes import CUDART, make_library, make_user

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare"),
]

HOSTS = ("abc-10.159.14.1", "def-10.159.14.2")
USER, COMM = "foobarbaz", "trainer-foobarb"
FOLDER = f"/home/{USER}/run"
PEER, LOOPBACK, LINK_LOCAL = "10.0.0.7", "127.0.0.1", "fe80::abcd:1%eth0"
SECRETS = ("hunter2", "ghp_x", "ghp_neighbour")
LITERALS = (
    *HOSTS,
    *(name.partition("-")[2] for name in HOSTS),
    USER,
    f"{COMM}az",
    FOLDER,
    PEER,
    LOOPBACK,
    LINK_LOCAL,
    *SECRETS,
)
SCRIPT = """
set -e
hostname {host}
mount -t tmpfs none /home
mkdir -p {folder}
cp {made}/user {folder}/{comm}az
cp {made}/libcudart.so.12 {folder}/
mkfifo /home/in
exec 9<>/home/in
rank=0
for address in {addresses}; do
  RANK=$rank WORLD_SIZE=3 MASTER_ADDR=$address MASTER_PORT=29500 \
    {folder}/{comm}az --password hunter2 --token=ghp_x </home/in 9>&- >/dev/null &
  pids="$pids $!"; rank=$((rank + 1)); asked="$asked --pid $!"
done
python3 -c 'import time; time.sleep(60)' ghp_neighbour 9>&- & pids="$pids $!"
trap 'kill $pids' EXIT
{record} $asked --duration 0.7s --streams none --keep-spool -o {out} {options}
"""


@dataclass(frozen=True)
class Recorded:
    """What one recording left, and what it said."""

    folder: Path
    said: str

    @property
    def bundle(self) -> Path:
        """Return the bundle's path."""
        (found,) = self.folder.glob("*.bundle")
        return found

    @property
    def manifest(self) -> dict[str, Any]:
        """Return the manifest."""
        with zipfile.ZipFile(self.bundle) as archive:
            return json.loads(archive.read("manifest.json"))

    def facts(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a fact."""
        with zipfile.ZipFile(self.bundle) as archive:
            lines = archive.read(f"facts/{name}.jsonl").splitlines()
        return [json.loads(line) for line in lines]

    def everything(self) -> bytes:
        """Return names, raw bytes and unpacked members of bundle and spool."""
        (spool,) = self.folder.glob("*.spool")
        parts = [self.bundle.name.encode(), spool.name.encode()]
        parts += [path.read_bytes() for path in (self.bundle, *spool.iterdir())]
        with zipfile.ZipFile(self.bundle) as archive:
            parts += [name.encode() for name in archive.namelist()]
            parts += [archive.read(name) for name in archive.namelist()]
        return b"\n".join(parts).lower()


def record(made: Path, folder: Path, host: str, *options: object) -> Recorded:
    """Record three ranks on a host of a name, in namespaces of its own."""
    folder.mkdir(exist_ok=True)
    script = SCRIPT.format(
        host=host,
        folder=FOLDER,
        made=made,
        comm=COMM,
        addresses=f"{PEER} {LOOPBACK} {LINK_LOCAL}",
        record=f"{PYTHON} -m capture record",
        out=folder,
        options=" ".join(str(option) for option in options),
    )
    done = subprocess.run(
        ["unshare", "--uts", "--mount", "sh", "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Recorded(folder, done.stderr)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    make_user(folder, make_library(folder, "libcudart.so.12", CUDART))
    return folder


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "site.key"
    path.write_bytes(bytes(range(64)))
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def pair(
    made: Path, key: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[Recorded]:
    folder = tmp_path_factory.mktemp("pair")
    return [
        record(made, folder / str(number), host, "--site-key", key)
        for number, host in enumerate(HOSTS)
    ]


def mapping_of(key: Path) -> list[dict[str, str]]:
    lines = (key.parent / "site.key.mapping.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def found_in(data: bytes) -> set[str]:
    """Return every literal, and every beginning of five characters or more."""
    starts = {text[:n].lower() for text in LITERALS for n in range(5, len(text) + 1)}
    return {start for start in starts if start.encode() in data}


def test_without_a_key_the_same_search_finds_the_names(
    made: Path, tmp_path: Path
) -> None:
    plain = record(made, tmp_path, HOSTS[0])

    found = found_in(plain.everything())

    assert {HOSTS[0], USER, COMM, FOLDER, PEER, LOOPBACK} <= found
    assert not any(secret in found for secret in SECRETS)
    assert "redaction" not in plain.manifest


def test_with_a_key_no_literal_and_no_beginning_of_one_is_left(
    pair: list[Recorded],
) -> None:
    assert [found_in(recorded.everything()) for recorded in pair] == [set(), set()]


def test_no_command_line_is_recorded(pair: list[Recorded]) -> None:
    for recorded in pair:
        assert {row["rank"] for row in recorded.facts("rank")} == {0, 1, 2}
        assert not re.search(rb"passw|token=|ghp_", recorded.everything())


def test_addresses_stay_told_apart_and_are_the_same_on_both_hosts(
    pair: list[Recorded], key: Path
) -> None:
    jobs = [
        {row["rank"]: row["job_id"] for row in recorded.facts("rank")}
        for recorded in pair
    ]
    originals = {row["pseudonym"]: row["original"] for row in mapping_of(key)}

    kinds = ("address-private", "address-loopback", "address-linklocal")
    for rank, kind in enumerate(kinds):
        assert re.match(rf"rendezvous:{kind}-[0-9a-f]{{16}}\b", jobs[0][rank])
        assert jobs[0][rank].endswith(":29500")
    assert jobs[0] == jobs[1]
    assert originals[jobs[0][0].split(":")[1]] == PEER
    names = {recorded.manifest["host"]["host_name"] for recorded in pair}
    assert len(names) == 2


def test_paths_keep_what_the_analysis_needs(pair: list[Recorded]) -> None:
    paths = {row["path"] for row in pair[0].facts("library")}
    pseudonym = "[0-9a-f]{16}"

    (library,) = (path for path in paths if path.endswith("libcudart.so.12"))
    assert re.fullmatch(
        rf"/path-{pseudonym}/user-{pseudonym}/run/libcudart.so.12", library
    )
    assert any(re.search(r"^(/usr)?/lib/.*libc\.so\.6$", path) for path in paths)
    assert {row["process_name"][:5] for row in pair[0].facts("process")} == {"name-"}


def test_another_key_gives_other_pseudonyms(
    made: Path, tmp_path: Path, pair: list[Recorded]
) -> None:
    other = tmp_path / "other.key"
    other.write_bytes(bytes(range(1, 65)))
    other.chmod(0o600)
    mapping = tmp_path / "kept" / "names.jsonl"
    mapping.parent.mkdir()

    found = record(
        made, tmp_path / "x", HOSTS[0], "--site-key", other, "--mapping", mapping
    )

    ours = {row["rank"]: row["job_id"] for row in found.facts("rank")}
    theirs = {row["rank"]: row["job_id"] for row in pair[0].facts("rank")}
    assert all(ours[rank] != theirs[rank] for rank in (0, 1, 2))
    assert found.manifest["host"]["boot_id"] != pair[0].manifest["host"]["boot_id"]
    assert (
        found.manifest["redaction"]["key_id"]
        != (pair[0].manifest["redaction"]["key_id"])
    )
    assert not (tmp_path / "other.key.mapping.jsonl").exists()
    assert stat.S_IMODE(mapping.stat().st_mode) == 0o600


def test_the_manifest_says_what_was_done_and_the_mapping_stays(
    pair: list[Recorded], key: Path
) -> None:
    redaction = pair[0].manifest["redaction"]
    mapping = key.parent / "site.key.mapping.jsonl"

    assert (redaction["mode"], redaction["rules"]) == ("keyed", 1)
    assert redaction["counts"]["user"] == 1
    assert redaction["counts"]["address-private"] == 1
    assert redaction["counts"]["host"] == 1
    assert redaction["not_promised"]
    assert stat.S_IMODE(mapping.stat().st_mode) == 0o600
    originals = {row["original"] for row in mapping_of(key)}
    assert {USER, COMM, PEER, LOOPBACK} <= originals
    assert "mapping" not in " ".join(path.name for path in pair[0].folder.iterdir())


def test_verify_searches_the_finished_bundle_and_fails_closed(
    pair: list[Recorded], key: Path, made: Path, tmp_path: Path
) -> None:
    mapping = key.parent / "site.key.mapping.jsonl"
    plain = record(made, tmp_path / "plain", HOSTS[0]).bundle
    part = tmp_path / "part.jsonl"
    part.write_text("".join(mapping.read_text().splitlines(keepends=True)[:3]))

    def verify(bundle: Path, *words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "capture", "verify", "--leaks", bundle, *words]
        return subprocess.run(
            [str(word) for word in command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    clean = verify(pair[0].bundle, "--mapping", mapping)
    leaking = verify(plain, "--mapping", mapping)

    assert clean.returncode == 0, clean.stdout + clean.stderr
    assert "no leak" in clean.stdout
    assert leaking.returncode == 6
    assert f"'{USER}'" in leaking.stdout
    assert f"'{COMM}'" in leaking.stdout
    assert "in file name" in leaking.stdout
    assert verify(pair[0].bundle).returncode == 6
    assert verify(pair[0].bundle, "--mapping", part).returncode == 6
    assert verify(pair[0].bundle, "--mapping", tmp_path / "none").returncode == 6
