"""Where ``MPI_COMM_WORLD`` is in processes whose MPI uses addresses as handles.

In Open MPI the handle is the address of the variable ``ompi_mpi_comm_world``.  Most
executables are linked with a copy relocation: the variable then lives in the
executable, and the library's own copy is never used.  So the executable is asked first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from capture import procfs
from capture.elf import ElfError, ElfFile

if TYPE_CHECKING:
    from capture.libraries import LibraryTable

_SYMBOL = "ompi_mpi_comm_world"

Place = tuple[int, int]
"""Device and inode of a mapped file."""


class WorldFinder:
    """Find the handle in processes; each file is parsed once."""

    def __init__(self, libraries: LibraryTable) -> None:
        self._libraries = libraries
        self._known: dict[Place, tuple[int, int] | None] = {}

    def address(self, pid: int) -> int | None:
        """Return the address, or None: no Open MPI, or the process is gone."""
        lowest: dict[Place, procfs.FileMapping] = {}
        for mapping in procfs.parse_maps(procfs.raw_maps(pid)):
            lowest.setdefault((mapping.device, mapping.inode), mapping)
        libraries = {
            (library.device, library.inode): library.fd_path
            for library in self._libraries.libraries
            if library.kind == "mpi" and library.is_probed
        }
        if not libraries.keys() & lowest.keys():
            return None
        # The first file that a process maps is its executable.
        executable = next(iter(lowest))
        paths = {executable: f"{procfs.PROC}/{pid}/exe", **libraries}
        for place in (executable, *libraries):
            if place in lowest:
                found = self._in_file(place, paths[place], lowest[place].start)
                if found is not None:
                    return found
        return None

    def _in_file(self, place: Place, path: str, lowest_start: int) -> int | None:
        """Return the address of the variable as one file defines it."""
        if place not in self._known:
            self._known[place] = _offset_from_start(path)
        known = self._known[place]
        return None if known is None else lowest_start - known[0] + known[1]


def _offset_from_start(path: str) -> tuple[int, int] | None:
    """Return where a file is loaded from, and where in it the variable is."""
    try:
        with ElfFile.open(path) as elf:
            address = elf.data_symbol(_SYMBOL)
            return None if address is None else (-elf.load_bias(0), address)
    except (ElfError, OSError):
        return None
