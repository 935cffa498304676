"""What is in a compiled object: sections, size of relocations, reads of the context."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_INSTRUCTION = struct.Struct("<BBhi")
_MOVE, _LOAD, _STORE = 0xBF, 0x79, 0x7B  # r = r; r = *(u64 *); *(u64 *) = r
_LOADS = {0x61: "I", 0x69: "H", 0x71: "B", 0x79: "Q"}
_WRITES_REGISTER = (0, 1, 4, 7)  # instruction classes: LD, LDX, ALU, ALU64
_CALL, _FRAME = 0x85, 10


@dataclass(frozen=True)
class BpfObject:
    """One object file."""

    machine: int
    is_64_little: bool
    sections: dict[str, bytes]

    def programs(self) -> dict[str, bytes]:
        """Return the sections that hold programs, by name."""
        return {
            name: content
            for name, content in self.sections.items()
            if name.startswith(("uprobe", "uretprobe", "tp", "raw_tp")) and content
        }

    def relocation_bytes(self) -> int:
        """Return the size of the table of fields that libbpf finds in the kernel."""
        return struct.unpack_from("<I", self.sections[".BTF.ext"], 28)[0]


def read_object(content: bytes) -> BpfObject:
    magic, _, machine, *_, table, _, _, _, _, size, count, names_index = (
        _HEADER.unpack_from(content)
    )
    rows = [_SECTION.unpack_from(content, table + i * size) for i in range(count)]
    start = rows[names_index][4]

    def name_of(row: tuple[int, ...]) -> str:
        at = start + row[0]
        return content[at : content.index(b"\0", at)].decode()

    return BpfObject(
        machine,
        magic[:6] == b"\x7fELF\x02\x01",
        {name_of(row): content[row[4] : row[4] + row[5]] for row in rows},
    )


def context_reads(code: bytes) -> Iterator[tuple[int, str]]:
    """Yield offset and width code of each read from what a program is given.

    The context comes in register 1; its copies in registers and on the stack are
    followed in the order of the code.
    """
    holders, slots = {1}, set[int]()
    for opcode, registers, offset, _ in _INSTRUCTION.iter_unpack(code):
        to, source = registers & 15, registers >> 4
        if opcode in _LOADS and source in holders:
            yield offset, _LOADS[opcode]
        if opcode == _STORE and to == _FRAME:
            (slots.add if source in holders else slots.discard)(offset)
        if opcode == _CALL:
            holders -= {0, 1, 2, 3, 4, 5}
        elif opcode & 7 in _WRITES_REGISTER:
            is_copy = opcode == _MOVE and source in holders
            is_reload = opcode == _LOAD and source == _FRAME and offset in slots
            (holders.add if is_copy or is_reload else holders.discard)(to)
