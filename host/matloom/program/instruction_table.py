"""Packs, unpacks and checks many instructions at once, as arrays with one row each.

`matloom.arch.instruction` defines the rules for a single instruction and raises the errors; this
module quickly finds the instructions that need its attention.
"""

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from operator import itemgetter
from typing import overload

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.instruction import (
    Instruction,
    illegal_field,
    length_words,
    pack,
    unpack,
)
from matloom.arch.isa import FORMATS, INSTRUCTION_WORD_BYTES, Addend, Opcode
from matloom.arch.numerics import Rounding

_Rows = NDArray[np.int64]

#: Bits of a word of an encoded instruction.
_WORD = 64


class _Layout:
    """Fields of a format without the opcode: names, and positions in 64-bit words."""

    def __init__(self, opcode: Opcode) -> None:
        fields = FORMATS[opcode].all_fields
        assert fields[0].name == "opcode"
        self.opcode = opcode
        self.names = tuple(item.name for item in fields[1:])
        self.zeros = dict.fromkeys(self.names, 0)
        self.words = FORMATS[opcode].instruction_words * INSTRUCTION_WORD_BYTES * 8 // _WORD
        bits = [item.bits for item in fields]
        places = np.array([sum(bits[:index]) for index in range(1, len(bits))], np.int64)
        word, shifts = np.divmod(places, _WORD)
        self._bits = list(zip(word.tolist(), shifts.tolist(), bits[1:], strict=True))
        self.low, self.high = np.array([item.range for item in fields[1:]], np.int64).T
        self.of = itemgetter(*self.names)

    def row(self, instruction: Instruction) -> tuple[int, ...]:
        """Return the values of all fields but the opcode; raise `IsaError` for an unknown name."""
        values = {**self.zeros, **instruction.values}
        if len(values) > len(self.zeros):
            pack(instruction)
        found: tuple[int, ...] = self.of(values)
        return found

    def encode(self, rows: _Rows) -> NDArray[np.uint64]:
        """Return the words (instructions, words) that encode values which fit their bits."""
        encoded_words = np.zeros((self.words, len(rows)), np.uint64)
        encoded_words[0] = self.opcode
        # Field by field, in arrays of one field: NumPy is slow along the few fields of a row.
        columns = np.ascontiguousarray(rows.T).view(np.uint64)
        for values, (word, shift, bits) in zip(columns, self._bits, strict=True):
            kept = values & np.uint64((1 << bits) - 1)
            encoded_words[word] |= kept << np.uint64(shift)
            if shift + bits > _WORD:
                encoded_words[word + 1] |= kept >> np.uint64(_WORD - shift)
        return encoded_words.T

    def decode(self, words: NDArray[np.uint64]) -> _Rows:
        """Return the values (instructions, fields) in words; those of a field are adjacent."""
        every = np.ascontiguousarray(words.T)
        rows = np.empty((len(self._bits), len(words)), np.int64)
        for values, (word, shift, bits), low in zip(rows, self._bits, self.low, strict=True):
            found = every[word] >> np.uint64(shift)
            if shift + bits > _WORD:
                found |= every[word + 1] << np.uint64(_WORD - shift)
            found &= np.uint64((1 << bits) - 1)
            values[:] = found.view(np.int64)
            if low < 0:
                values[values >= -low] += 2 * low
        return rows.T

    def has_reserved_bits(self, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return a mask of the instructions with a reserved bit set."""
        used = (1 << FORMATS[self.opcode].used_bits) - 1
        masks = [~(used >> _WORD * word) & (2**_WORD - 1) for word in range(self.words)]
        return np.asarray((words & np.array(masks, np.uint64)).any(axis=1))


@cache
def _layout(opcode: Opcode) -> _Layout:
    """Return the layout of an opcode's instructions, from a cache."""
    return _Layout(opcode)


class InstructionTable(Sequence[Instruction]):
    """Sequence of instructions, stored as arrays of field values by opcode.

    A command buffer is decoded lazily: each `Instruction` is created when it is first read.
    """

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        opcodes = np.array([int(item.opcode) for item in instructions], np.int64)
        self._instructions: list[Instruction | None] = list(instructions)
        #: For each opcode, the indices of its instructions and their values (instructions, fields).
        self._groups: dict[Opcode, tuple[NDArray[np.int64], _Rows]] = {}
        self._columns: list[tuple[Opcode, _Rows, dict[str, _Rows]]] = []
        #: Opcode, and row in its group, of each instruction that was read from bytes.
        self._places: list[tuple[Opcode, int]] = []
        for opcode in Opcode:
            indices = np.flatnonzero(opcodes == opcode)
            if len(indices):
                layout = _layout(opcode)
                rows = [layout.row(instructions[index]) for index in indices.tolist()]
                self._groups[opcode] = indices, np.array(rows, np.int64)

    @classmethod
    def unpack(cls, commands: bytes) -> "InstructionTable":
        """Return the instructions of a command buffer, END last; raise `IsaError` if invalid."""
        table = cls(())
        opcodes, offsets, end = _scan(commands)
        if not opcodes or opcodes[-1] != Opcode.END:
            unpack(commands, end)
        table._instructions = [None] * len(opcodes)
        table._places = [(Opcode.END, 0)] * len(opcodes)
        for opcode, indices, rows, bad in _decode_by_opcode(commands, opcodes, offsets):
            for index in indices[bad].tolist():
                unpack(commands, offsets[index])
            for place, index in enumerate(indices.tolist()):
                table._places[index] = opcode, place
            table._groups[opcode] = indices, rows
        return table

    def __len__(self) -> int:
        return len(self._instructions)

    @overload
    def __getitem__(self, index: int) -> Instruction: ...

    @overload
    def __getitem__(self, index: slice) -> list[Instruction]: ...

    def __getitem__(self, index: int | slice) -> Instruction | list[Instruction]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        found = self._instructions[index]
        if found is None:
            opcode, place = self._places[index]
            row = self._groups[opcode][1][place].tolist()
            values = dict(zip(_layout(opcode).names, row, strict=True))
            found = self._instructions[index] = Instruction(opcode, values)
        return found

    def columns(self) -> list[tuple[Opcode, _Rows, dict[str, _Rows]]]:
        """Return each opcode, the indices of its instructions, and their field values by name."""
        if not self._columns:
            self._columns = [
                (opcode, indices, dict(zip(_layout(opcode).names, rows.T, strict=True)))
                for opcode, (indices, rows) in self._groups.items()
            ]
        return self._columns

    def column(self, name: str) -> list[int]:
        """Return the values of a field in all instructions; 0 in those without the field."""
        values = np.zeros(len(self), np.int64)
        for _opcode, indices, columns in self.columns():
            values[indices] = columns.get(name, 0)
        found: list[int] = values.tolist()
        return found

    def pack(self) -> bytes:
        """Return the bytes of all instructions; raise `IsaError` if a field overflows."""
        sizes = np.zeros(len(self), np.int64)
        for opcode, (indices, rows) in self._groups.items():
            layout = _layout(opcode)
            for index in indices[((rows < layout.low) | (rows > layout.high)).any(axis=1)]:
                pack(self[index])
            sizes[indices] = layout.words
        ends = np.cumsum(sizes)
        words = np.zeros(ends[-1] if len(ends) else 0, np.uint64)
        for opcode, (indices, rows) in self._groups.items():
            layout = _layout(opcode)
            starts = ends[indices] - layout.words
            words[starts[:, None] + np.arange(layout.words)] = layout.encode(rows)
        return words.astype("<u8").tobytes()

    def doubtful_indices(self, config: Config) -> list[int]:
        """Return the indices of instructions that may have an illegal field, ascending."""
        found = []
        for opcode, indices, columns in self.columns():
            wrong = _rules(opcode, config).breaks_rule(self._groups[opcode][1])
            # Fields that are only legal together.
            if opcode is Opcode.EXEC:
                wrong |= (columns["window"] != 0) & (columns["paired"] != 0)
            elif opcode is Opcode.POST:
                wrong |= (columns["rounding"] == int(Rounding.FLOAT)) | (columns["words"] != 0)
                wrong |= columns["curve"] != 0
                wrong |= (columns["softmax"] != 0) | (columns["addend"] * columns["product"] != 0)
                wrong |= (columns["pool"] != 0) | (columns["addend"] == int(Addend.RESULT))
            found += indices[wrong].tolist()
        return sorted(found)

    def first_violation(self, config: Config) -> str | None:
        """Return a sentence on the first instruction with an illegal field, or None."""
        for index in self.doubtful_indices(config):
            problem = illegal_field(self[index], config)
            if problem is not None:
                return problem
        return None


class _Rules:
    """Legal values of each single field of an opcode in a configuration."""

    def __init__(self, opcode: Opcode, config: Config) -> None:
        fields = FORMATS[opcode].all_fields[1:]
        self._low, self._high = np.array([item.limits(config) for item in fields], np.int64).T
        units = np.array([item.unit(config) for item in fields], np.int64)
        self._multiples = np.flatnonzero(units > 1)
        self._units = units[self._multiples]
        #: Indices of the mode, and of fields that must be 0 in every mode but the first.
        self._plain = [at for at, item in enumerate(fields) if item.plain]
        self._mode = [at for at, item in enumerate(fields) if item.name == "mode"]
        self._choices: list[tuple[int, NDArray[np.int64]]] = []
        for at, item in enumerate(fields):
            choices = item.allowed_values(config)
            if choices is None:
                continue
            low, high = min(choices), max(choices)
            self._low[at] = max(self._low[at], low)
            self._high[at] = min(self._high[at], high)
            if len(set(choices)) <= high - low:
                self._choices.append((at, np.array(choices, np.int64)))

    def breaks_rule(self, rows: _Rows) -> NDArray[np.bool_]:
        """Return a mask of the instructions with a field outside its legal values."""
        wrong = np.asarray(((rows < self._low) | (rows > self._high)).any(axis=1))
        if len(self._multiples):
            wrong |= (rows[:, self._multiples] % self._units != 0).any(axis=1)
        for at, choices in self._choices:
            wrong |= ~np.isin(rows[:, at], choices)
        if self._plain and self._mode:
            wrong |= (rows[:, self._mode[0]] != 0) & rows[:, self._plain].any(axis=1)
        return wrong


@lru_cache
def _rules(opcode: Opcode, config: Config) -> _Rules:
    """Return the rules of an opcode's fields, from a cache."""
    return _Rules(opcode, config)


def unpack_all(commands: bytes) -> Iterator[Instruction]:
    """Yield the instructions of a command buffer up to END; raise `IsaError` if one is invalid."""
    opcodes, offsets, offset = _scan(commands)
    instructions: list[Instruction | None] = [None] * len(opcodes)
    for opcode, indices, rows, bad in _decode_by_opcode(commands, opcodes, offsets):
        names = _layout(opcode).names
        for index, row, wrong in zip(indices.tolist(), rows.tolist(), bad.tolist(), strict=True):
            if not wrong:
                instructions[index] = Instruction(opcode, dict(zip(names, row, strict=True)))
    for index, instruction in enumerate(instructions):
        yield instruction or unpack(commands, offsets[index])[0]
    if not opcodes or opcodes[-1] != Opcode.END:
        unpack(commands, offset)


def _decode_by_opcode(
    commands: bytes, opcodes: list[int], offsets: list[int]
) -> Iterator[tuple[Opcode, NDArray[np.int64], _Rows, NDArray[np.bool_]]]:
    """Yield each opcode with its instructions' indices, values, and mask of reserved bits set."""
    words = np.frombuffer(commands, "<u8", len(commands) // 8)
    kinds, starts = np.array(opcodes, np.int64), np.array(offsets, np.int64) // 8
    for opcode in Opcode:
        indices = np.flatnonzero(kinds == opcode)
        if len(indices):
            layout = _layout(opcode)
            raw = words[starts[indices][:, None] + np.arange(layout.words)]
            yield opcode, indices, layout.decode(raw), layout.has_reserved_bits(raw)


def _scan(commands: bytes) -> tuple[list[int], list[int], int]:
    """Return opcodes and byte offsets up to END, and where END or the valid bytes end."""
    opcodes: list[int] = []
    offsets: list[int] = []
    offset, end = 0, len(commands)
    sizes = {int(opcode): length_words(int(opcode)) * INSTRUCTION_WORD_BYTES for opcode in Opcode}
    while offset < end:
        opcode = commands[offset] & 15
        size = sizes.get(opcode)
        if size is None or offset + size > end:
            break
        opcodes.append(opcode)
        offsets.append(offset)
        offset += size
        if opcode == Opcode.END:
            break
    return opcodes, offsets, offset
