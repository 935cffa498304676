"""The command line keeps its manners: stdout, stderr, hints, exit codes, help."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from capture.__main__ import main
from capture.cli import build_parser, record_options
from capture.exit_code import ExitCode
from capture.options import RecordOptions
from tests.capture.spoilt_bundles import pack, sound_bundle, unpack
from tests.capture.spools import end, off_cpu, spool

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ["doctor", "record", "seal", "verify", "show"]
GOLDEN = Path(__file__).with_name("golden") / "show.txt"


@pytest.fixture(scope="module")
def data() -> bytes:
    return sound_bundle()


@pytest.fixture
def bundle(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "hosta-20261130T200000Z-c01d7ace.bundle"
    path.write_bytes(data)
    return path


def _spool(tmp_path: Path) -> Path:
    frames = (("events/off_cpu", off_cpu(2_000)), ("end", end()))
    return spool(tmp_path / "x.spool", *frames, streams=["off_cpu"])


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_ends_with_three_examples(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main([command, "--help"])

    examples = capsys.readouterr().out.split("examples:\n")[1]
    assert raised.value.code == 0
    assert len(re.findall(r"^  \S", examples, re.MULTILINE)) == 3
    assert f"coldtrace-capture {command}" in examples
    assert max(map(len, examples.splitlines())) <= 80


def test_only_commands_that_work_are_offered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    shown = capsys.readouterr().out
    assert re.findall(r"^    (\w+) ", shown, re.MULTILINE) == COMMANDS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["seal"], "the following arguments are required: SPOOL"),
        (["record", "--duration", "30"], "not a length of time: '30'"),
        (["record", "--streams", "gpu"], "unknown stream: 'gpu' (choose from"),
        (["split"], "invalid choice: 'split'"),
    ],
)
def test_usage_errors_speak_like_all_others(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)

    out, err = capsys.readouterr()
    assert raised.value.code == ExitCode.USAGE
    assert out == ""
    assert err.startswith("coldtrace-capture: error: ")
    assert message in err
    assert "coldtrace-capture: hint: " in err


def test_record_asks_for_what_the_arguments_say(tmp_path: Path) -> None:
    text = "--pid 7 --pid 8 --cgroup /c --library /l.so --streams off_cpu --set full "
    text += "--loader bcc --off-cpu-min 1ms --duration 30s --until-exit --no-seal "
    text += f"--no-return-probes --keep-spool --libbpf /b.so --spool /s -o {tmp_path}"

    options = record_options(build_parser().parse_args(["record", *text.split()]))

    assert options == RecordOptions(
        out_dir=tmp_path,
        pids=(7, 8),
        cgroups=(Path("/c"),),
        libraries=(Path("/l.so"),),
        streams=("off_cpu",),
        probe_set="full",
        loader="bcc",
        off_cpu_min_ns=1_000_000,
        duration_ns=30_000_000_000,
        until_exit=True,
        return_probes=False,
        libbpf=Path("/b.so"),
        seal=False,
        spool=Path("/s"),
        keep_spool=True,
    )


def test_record_without_arguments_is_the_default() -> None:
    assert record_options(build_parser().parse_args(["record"])) == RecordOptions()


def test_seal_says_what_it_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["seal", str(_spool(tmp_path)), "-o", str(tmp_path)])

    (bundle,) = tmp_path.glob("*.bundle")
    out, err = capsys.readouterr()
    assert status == ExitCode.DONE
    assert out == ""
    assert err == f"coldtrace-capture: wrote {bundle}: 1 off_cpu, 0 lost\n"


def test_seal_of_something_else_is_unreadable_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["seal", str(tmp_path)])

    assert status == ExitCode.UNREADABLE
    why = f"{tmp_path} is not a spool: header.json: No such file or directory"
    assert capsys.readouterr().err.splitlines() == [
        f"coldtrace-capture: error: {why}",
        "coldtrace-capture: hint: give the folder that record printed",
    ]


def test_seal_overwrites_nothing_unless_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = ["seal", str(_spool(tmp_path)), "-o", str(tmp_path), "--keep-spool"]

    statuses = [main(again), main(again), main([*again, "--force"])]

    assert statuses == [ExitCode.DONE, ExitCode.FAILED, ExitCode.DONE]
    assert "hint: give --force to replace it" in capsys.readouterr().err


def test_verify_names_every_bundle_and_returns_the_worst(
    tmp_path: Path, bundle: Path, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged, foreign = tmp_path / "damaged", tmp_path / "foreign"
    members = unpack(data)
    del members["SHA256SUMS"]
    damaged.write_bytes(pack(members, sums=False))
    foreign.write_bytes(b"text")

    sound = main(["verify", str(bundle)])
    partly = main(["verify", str(bundle), str(damaged)])
    worst = main(["verify", str(foreign), str(damaged)])

    out, err = capsys.readouterr()
    assert (sound, partly, worst) == (0, ExitCode.DAMAGED, ExitCode.UNREADABLE)
    assert out.splitlines()[0] == f"{bundle}: sound, 3 off_cpu, 0 lost"
    assert f"{damaged}: SHA256SUMS is missing\n" in out
    assert f"{foreign}: not a ZIP file\n" in out
    assert "coldtrace-capture: error: 1 of 2 bundles damaged\n" in err
    assert "coldtrace-capture: error: 1 of 2 bundles refused\n" in err


def test_show_is_the_golden_text(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["show", str(bundle)])

    # Compressed sizes depend on the zlib at hand.
    shown = re.sub(
        r"(\d/\d) +\d+$", r"\1 N", capsys.readouterr().out, flags=re.MULTILINE
    )
    assert shown == GOLDEN.read_text()


def test_show_is_strict_json_with_the_whole_manifest(
    bundle: Path, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["show", str(bundle), "--format", "json"])

    shown = json.loads(capsys.readouterr().out)
    assert shown["manifest"] == json.loads(unpack(data)["manifest.json"])
    assert [member["name"] for member in shown["members"]] == list(unpack(data))


def test_show_lets_no_control_character_act(
    bundle: Path, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    members = unpack(data)
    manifest = json.loads(members["manifest.json"])
    manifest["host"]["host_name"] = "a\x1b[2Jb\u202e\nc"
    bundle.write_bytes(
        pack({**members, "manifest.json": json.dumps(manifest).encode()})
    )

    main(["show", str(bundle)])

    shown = capsys.readouterr().out
    assert "a\\x1b[2Jb\\u202e\\nc, x86_64" in shown
    assert "\x1b" not in shown


def test_show_of_a_newer_version_names_both_numbers(
    bundle: Path, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    members = unpack(data)
    manifest = {**json.loads(members["manifest.json"]), "version": 7}
    bundle.write_bytes(
        pack({**members, "manifest.json": json.dumps(manifest).encode()})
    )

    status = main(["show", str(bundle)])

    assert status == ExitCode.UNREADABLE
    assert (
        "format version 7 is newer than version 1, the newest this reader opens"
        in capsys.readouterr().err
    )


def test_it_runs_as_a_module_and_out_of_a_zip(tmp_path: Path, bundle: Path) -> None:
    pyz = tmp_path / "capture.pyz"
    with zipfile.ZipFile(pyz, "w") as archive:
        for path in (ROOT / "capture").rglob("*.py"):
            archive.write(path, path.relative_to(ROOT))
        archive.writestr(
            "__main__.py",
            "import sys\nfrom capture.__main__ import main\nsys.exit(main())\n",
        )
    isolated = [sys.executable, "-I", "-S", str(pyz)]
    module = [sys.executable, "-m", "capture"]

    shown = [
        subprocess.run(
            [*command, "show", str(bundle)], cwd=ROOT, capture_output=True, check=True
        ).stdout
        for command in (isolated, module)
    ]

    assert shown[0] == shown[1]
    assert shown[0].startswith(b"hosta-20261130T200000Z-c01d7ace.bundle\n")


def test_a_reader_that_closes_early_is_no_error(bundle: Path) -> None:
    shell = f"{sys.executable} -m capture show {bundle} --format json | head -c 10"

    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {shell}"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )

    assert done.stderr == b""
    assert len(done.stdout) == 10
