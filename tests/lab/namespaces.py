"""Several "hosts" on one kernel, out of namespaces that hold nothing but themselves.

A host is a network, a UTS and a mount namespace, held open by one small process of
ours, and a cgroup for its jobs.  Bind mounts give each its own boot id, machine id and
/etc/hosts; a veth pair joins two of them directly, so nothing of it is ever seen in the
namespace that the tests run in, which may itself be a watched one.

What mpirun starts on the other host is started there by the process that holds it open,
which lives in the cgroup as a batch system's daemon does: a process that came over by
itself would still be a child of mpirun, and a recorder that follows forks would follow
it from one "host" to the other.

``ip netns`` is not used: it remounts /sys, which hides the cgroups, and its names are
global.  Here the kernel takes everything away when the holders end, and they end when
their standard input closes, however the test run ends.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_CGROUP_PREFIX = "coldtrace-lab-"
_SUBNET = "10.77.0"
_INTERFACE = "eth0"
# Jobs and their recorders come before other work on the machine, which would make a
# label untrue.
FIRST = ("nice", "-n", "-10")

_HOLD = """
set -e
echo "$1" > /proc/sys/kernel/hostname
mount --bind "$2/boot_id" /proc/sys/kernel/random/boot_id
if [ -e /etc/machine-id ]; then mount --bind "$2/machine_id" /etc/machine-id; fi
mount --bind "$2/hosts" /etc/hosts
ip link set lo up
echo $$ > "$3/cgroup.procs"
echo ready
while IFS= read -r line; do
    sh -c "$line" < /dev/null > /dev/null 2>&1 &
done
"""

# A batch system has put a job where it belongs well before the job's program starts.
_JOIN = 'echo $$ > "$0/cgroup.procs" && sleep 1 && exec "$@"'

# Open MPI makes orted leave its caller, so nobody waits for the end of the command.
_AGENT = """#!/bin/sh
# Stands where mpirun would call ssh: [options] host words...
while case $1 in -*) true ;; *) false ;; esac; do shift; done
host=$1; shift
printf '%s\\n' "$*" > "/proc/$(cat "{folder}/$host/holder")/fd/0"
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabHost:
    """One namespace "host"; commands run in it as on a machine of that name."""

    name: str
    address: str
    folder: Path
    cgroup: Path
    holder: subprocess.Popen[bytes]

    def words(self, command: Sequence[str | Path], *, cwd: Path) -> list[str]:
        """Return the command line that runs a command inside this host."""
        enter = ["nsenter", "--target", str(self.holder.pid), "--net", "--uts"]
        return [*enter, "--mount", "env", "-C", str(cwd), *map(str, command)]

    def start_job(
        self,
        command: Sequence[str | Path],
        *,
        cwd: Path,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a command in this host and in its cgroup, as part of its job."""
        words = self.words(command, cwd=cwd)
        return subprocess.Popen(
            [*FIRST, "sh", "-c", _JOIN, str(self.cgroup), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            text=True,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Lab:
    """The hosts of one run, and a folder that every one of them sees."""

    folder: Path
    hosts: tuple[LabHost, ...]

    @property
    def agent(self) -> Path:
        """Return the program that Open MPI starts instead of ssh."""
        return self.folder / "agent"

    def host(self, name: str) -> LabHost:
        """Return the host of that name."""
        return next(host for host in self.hosts if host.name == name)


@contextlib.contextmanager
def lab(*names: str) -> Iterator[Lab]:
    """Give hosts of these names for a while: one alone, or two joined by a wire.

    Raises
    ------
    ValueError
        If there are more than two names: the wire is a veth pair.
    """
    if not 1 <= len(names) <= 2:
        raise ValueError(f"one host or two, not {len(names)}")
    root = cgroup_root()
    _sweep(root)
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="lab-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        prefix = f"{_CGROUP_PREFIX}{os.getpid()}-{uuid.uuid4().hex[:8]}"
        hosts = tuple(
            _open_host(stack, folder, root / f"{prefix}-{name}", names, index)
            for index, name in enumerate(names)
        )
        _join(hosts)
        made = Lab(folder=folder, hosts=hosts)
        made.agent.write_text(_AGENT.format(folder=folder))
        made.agent.chmod(0o755)
        yield made


def cgroup_root() -> Path:
    """Return where the unified cgroup hierarchy is mounted.

    Raises
    ------
    RuntimeError
        If it is not.
    """
    for line in Path("/proc/self/mounts").read_text().splitlines():
        words = line.split()
        if words[2] == "cgroup2":
            return Path(words[1])
    raise RuntimeError("cgroup v2 is not mounted")


def _open_host(
    stack: contextlib.ExitStack,
    folder: Path,
    cgroup: Path,
    names: Sequence[str],
    index: int,
) -> LabHost:
    name = names[index]
    own = folder / name
    own.mkdir()
    (own / "boot_id").write_text(f"{uuid.uuid4()}\n")
    (own / "machine_id").write_text(f"{uuid.uuid4().hex}\n")
    addresses = [f"{_SUBNET}.{i + 1} {each}\n" for i, each in enumerate(names)]
    (own / "hosts").write_text("127.0.0.1 localhost\n" + "".join(addresses))
    cgroup.mkdir()
    stack.callback(_remove_cgroup, cgroup)
    holder = _hold(name, own, cgroup)
    stack.callback(_release, holder)
    (own / "holder").write_text(f"{holder.pid}\n")
    return LabHost(
        name=name,
        address=f"{_SUBNET}.{index + 1}",
        folder=own,
        cgroup=cgroup,
        holder=holder,
    )


def _hold(name: str, folder: Path, cgroup: Path) -> subprocess.Popen[bytes]:
    new = ["unshare", "--net", "--uts", "--mount", "--propagation", "private"]
    holder = subprocess.Popen(
        [*FIRST, *new, "sh", "-c", _HOLD, "hold", name, str(folder), str(cgroup)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    if holder.stdout.readline() != b"ready\n":
        holder.kill()
        holder.wait()
        raise RuntimeError(f"the namespaces of {name} could not be made")
    return holder


def _release(holder: subprocess.Popen[bytes]) -> None:
    assert holder.stdin is not None
    assert holder.stdout is not None
    holder.stdin.close()
    holder.stdout.close()
    holder.wait()


def _join(hosts: Sequence[LabHost]) -> None:
    """Wire two hosts together; the pair is made inside the first one."""
    if len(hosts) == 2:
        far = ["peer", "name", _INTERFACE, "netns", str(hosts[1].holder.pid)]
        _ip(hosts[0], "link", "add", _INTERFACE, "type", "veth", *far)
        for host in hosts:
            _ip(host, "addr", "add", f"{host.address}/24", "dev", _INTERFACE)
            _ip(host, "link", "set", _INTERFACE, "up")


def _ip(host: LabHost, *words: str) -> None:
    enter = ["nsenter", "--target", str(host.holder.pid), "--net"]
    subprocess.run([*enter, "ip", *words], check=True)


def _remove_cgroup(cgroup: Path) -> None:
    """End what still runs in a cgroup, and remove it."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for pid in (cgroup / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(OSError):
            cgroup.rmdir()
            return
        time.sleep(0.02)
    raise RuntimeError(f"processes in {cgroup} do not end")


def _sweep(root: Path) -> None:
    """Remove the cgroups of earlier runs that were killed."""
    for cgroup in root.glob(f"{_CGROUP_PREFIX}*"):
        made_by = re.match(r"\d+", cgroup.name.removeprefix(_CGROUP_PREFIX))
        if made_by and not Path(f"/proc/{made_by[0]}").exists():
            with contextlib.suppress(OSError):
                cgroup.rmdir()
