"""Real processes for tests: small C programs linked to libraries made on the spot."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

CUDART = """
int cudaStreamSynchronize(void *stream) { return stream ? 1 : 0; }
int cudaMalloc(void **p, unsigned long size) { *p = (void *)size; return 0; }
"""

USER = """
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/prctl.h>
#include <pthread.h>
#include <unistd.h>

int cudaStreamSynchronize(void *stream);

static void *sleeper(void *unused) { pause(); return unused; }

/* Commands by a line of standard input: c N calls, t a thread, f a child, q quit. */
int main(void) {
  char line[64];
  pthread_t thread;
  puts("up"); fflush(stdout);
  while (fgets(line, sizeof line, stdin) && line[0] != 'q') {
    if (line[0] == 'c')
      for (int i = atoi(line + 1); i > 0; i--) cudaStreamSynchronize(0);
    if (line[0] == 't') pthread_create(&thread, 0, sleeper, 0);
    if (line[0] == 'f') {
      int child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
      }
      printf("%d\\n", child);
    } else puts("ok");
    fflush(stdout);
  }
  return 0;
}
"""


def make_library(folder: Path, name: str, source: str) -> Path:
    path = folder / name
    (folder / f"{name}.c").write_text(source)
    command = ["gcc", "-shared", "-fPIC", "-O1", f"{name}.c", "-o", name]
    command += [f"-Wl,-soname,{name}", "-Wl,--build-id"]
    subprocess.run(command, cwd=folder, check=True)
    return path


def make_user(folder: Path, library: Path, source: str = USER, *flags: str) -> Path:
    (folder / "user.c").write_text(source)
    command = ["gcc", "-O1", *flags, "user.c", "-o", "user", f"./{library.name}"]
    command.append("-pthread")
    subprocess.run([*command, "-Wl,-rpath,$ORIGIN"], cwd=folder, check=True)
    return folder / "user"


class Child:
    """A running program that is told what to do by lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def tell(self, line: str) -> str:
        """Send a command and return the answer."""
        self._stdin.write(f"{line}\n")
        self._stdin.flush()
        return self.line()

    def line(self) -> str:
        """Return the next line that the program prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        """Let the program run to its end."""
        self._stdin.close()
        self.process.wait(10)

    @property
    def _stdin(self) -> IO[str]:
        assert self.process.stdin is not None
        return self.process.stdin


@contextmanager
def running(
    program: Path, env: dict[str, str] | None = None, *, before: Iterable[str] = ()
) -> Iterator[Child]:
    process = subprocess.Popen(
        [*before, program],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        child = Child(process)
        assert child.line() == "up"
        yield child
        process.kill()
