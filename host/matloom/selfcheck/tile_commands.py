"""Finds the instructions that compute a tile, what they read, and where they write."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import (
    FILLS,
    FORMATS,
    AddressSpace,
    Destination,
    Opcode,
    RowFunction,
    Source,
    post_element_bytes,
    post_vector_count,
)
from matloom.arch.numerics import Rounding
from matloom.meaning.state import State
from matloom.meaning.terms import is_known, split_words
from matloom.program.instruction_table import InstructionTable

#: Maximum number of instructions of a tile.
_MAX_INSTRUCTIONS = 64

#: Number of values that the significant bits of a probe can have; probes that agree in these bits
#: stand for the same byte.
PROBE_VALUES = 1 << 24

#: A `ProbeSample` keeps one of this many probes; a power of two.
_PROBES_PER_SAMPLE = 16

#: Number of probes that are collected before they are added to a sample.
_BATCH_PROBES = 1 << 14

#: Number of values of the last bits of a probe that `may_be_among` compares; a power of two.
_ENDS = 1 << 18

#: Multiplier from splitmix64, which mixes the bits of a probe.
_FACTOR = 0x9E3779B97F4A7C15

#: Array of probes and constants: whole numbers, as integers or floats.
Numbers = NDArray[Any]


@dataclass(kw_only=True)
class TileRun:
    """The instructions that compute a tile, and what they read and write during the meaning check.

    That check runs instructions on probes: numbers that each stand for one byte of a tensor.

    Members
    -------
    layers:
        Names of the layers that the tile may belong to: those that complete next.
    reads:
        Ranges of the scratchpad that each instruction reads, as pairs of the first address and the
        contents.
    tables:
        Contents of the table of bytes and of the table of exponentials.
    places:
        Scratchpad addresses of the bytes that the tile is written to; None before it is written.
    made:
        Probes that are written to `places`; None before the tile is written.
    """

    instructions: list[Instruction]
    layers: tuple[str, ...]
    reads: list[list[tuple[int, Numbers]]] = field(default_factory=list)
    tables: tuple[Numbers, ...] = ()
    places: Numbers | None = None
    made: Numbers | None = None

    @property
    def operands(self) -> Numbers:
        """All numbers that the instructions read which stand for bytes of tensors (probes)."""
        every = [contents for ranges in self.reads for _start, contents in ranges]
        joined = np.concatenate(every) if every else np.zeros(0)
        return joined[~is_known(joined)]


def checkable_posts(table: InstructionTable) -> list[int]:
    """Return the indices of the POSTs that write bytes or words that `Tiles` can check."""
    for opcode, numbers, columns in table.columns():
        if opcode is Opcode.POST:
            plain = (
                (columns["destination"] == Destination.SPAD)
                & ~np.isin(columns["table"], FILLS)
                & (columns["softmax"] != RowFunction.FILL)
                & (columns["rounding"] != Rounding.FLOAT)
                & (columns["pairs"] == 0)
            )
            return [int(number) for number in numbers[plain]]
    return []


def _adds_sums(post: Mapping[str, int]) -> bool:
    """Return whether a POST from the scratchpad also reads accumulators."""
    return bool(post.get("product", 0) or post.get("addend", 0))


def sum_instructions(
    instructions: Sequence[Instruction], last: int, columns: int
) -> list[int] | None:
    """Return the indices of the instructions that compute a POST's sums, and of the POST itself.

    `last` is the index of the POST, and `columns` that of the array. Returns None if there are too
    many instructions, if the sums begin before the command buffer, or if an instruction cannot be
    run by itself.
    """
    post, found = instructions[last].values, [last]
    if post.get("source", 0) == Source.SPAD and not _adds_sums(post):
        return found
    missing = _accessed_channels(post, columns)
    for at in range(last - 1, max(-1, last - 4 * _MAX_INSTRUCTIONS), -1):
        opcode, get = instructions[at].opcode, instructions[at].values.get
        sums = opcode is Opcode.EXEC or (
            opcode is Opcode.POST and get("destination", 0) != Destination.SPAD
        )
        if not sums:
            continue
        sums_of = _accessed_channels(instructions[at].values, columns)
        if missing.keys().isdisjoint(sums_of):
            continue
        if get("pairs", 0) or _adds_sums(instructions[at].values) or len(found) > _MAX_INSTRUCTIONS:
            return None
        found.append(at)
        if not get("accumulate", 0) and get("destination", 0) != Destination.ACC_ADD:
            missing = {
                entry: channels
                for entry, channels in missing.items()
                if sums_of.get(entry, 0) < channels
            }
        if not missing:
            return found[::-1]
    return None


def _accessed_channels(values: Mapping[str, int], columns: int) -> dict[int, int]:
    """Return the number of channels of each accumulator entry that an EXEC or POST accesses."""
    positions, blocks = post_vector_count(values), values["oc_blocks"]
    first, tail = values.get("acc_addr", 0), values.get("tail", columns)
    edge = first + (blocks - 1) * positions
    end = edge + positions
    return dict.fromkeys(range(first, edge), columns) | dict.fromkeys(range(edge, end), tail)


def written_bytes(post: Instruction, config: Config) -> Numbers:
    """Return the scratchpad addresses of the bytes that a POST writes.

    They are in the order of rows, positions and channels.
    """
    values = post.values
    channels = (values["oc_blocks"] - 1) * config.columns + values["tail"]
    rows = np.arange(values["height"]) * values["dest_pitch"]
    positions = np.add.outer(rows, np.arange(values["width"]) * values["x_step"])
    channel_bytes = np.arange(channels * post_element_bytes(values))
    return values["dest_addr"] + np.add.outer(positions, channel_bytes).reshape(-1)


def scratchpad_reads(state: State, instruction: Instruction) -> list[tuple[int, Numbers]]:
    """Return the first address and the contents of each scratchpad range that is read.

    `state` has the scratchpad's contents before the instruction.
    """
    found = []
    for extent in FORMATS[instruction.opcode].extents:
        if extent.memory is not AddressSpace.SPAD or extent.write:
            continue
        start = instruction.values[extent.base]
        end = extent.end(instruction.values.get, state.config)
        if end is not None and end > start:
            found.append((start, state.spad[start:end].copy()))
    return found


def flatten_probes(probes: Numbers, post: Instruction) -> Numbers:
    """Return a probe for each byte that a POST wrote, given the probes of its elements.

    A probe is a number that stands for a byte of a tensor, or for an int16 element.
    """
    if post.values.get("words", 0):
        return np.stack(split_words(probes), axis=-1).reshape(-1)
    return probes.reshape(-1)


def last_bits(numbers: Numbers) -> NDArray[np.int64]:
    """Return the bits by which probes differ, as integers below `PROBE_VALUES`.

    Probes are numbers that stand for bytes of tensors.
    """
    return numbers.astype(np.int64, copy=False) & (PROBE_VALUES - 1)


class ProbeSample:
    """A set of probes (numbers that stand for bytes of tensors), of which it keeps a sample.

    It keeps one in `_PROBES_PER_SAMPLE`, so that it fits a CPU's cache.
    """

    def __init__(self) -> None:
        self._known = np.zeros(PROBE_VALUES // _PROBES_PER_SAMPLE, bool)
        #: Arrays of probes that are still to be added.
        self._new: list[Numbers] = []
        #: Number of probes in these arrays.
        self._count = 0

    def add(self, numbers: Numbers) -> None:
        """Add numbers of unknown bytes (probes); the array must not be changed afterwards."""
        self._new.append(numbers)
        self._count += len(numbers)
        if self._count > _BATCH_PROBES:
            self._add_new()

    def has(self, numbers: Numbers) -> bool:
        """Return whether all probes in `numbers` that the sample would keep were added."""
        if self._new:
            self._add_new()
        return bool(self._known[self._sample_indices(numbers)].all())

    def _add_new(self) -> None:
        """Add the probes that have been collected since the last time."""
        self._known[self._sample_indices(np.concatenate(self._new))] = True
        self._new, self._count = [], 0

    @staticmethod
    def _sample_indices(numbers: Numbers) -> NDArray[np.int32]:
        """Return the index of each probe in `numbers` that is part of the sample."""
        bits = numbers.astype(np.int32)
        chosen = bits[bits & (_PROBES_PER_SAMPLE - 1) == 0]
        chosen = chosen[~is_known(chosen)]
        sampled: NDArray[np.int32] = (chosen & (PROBE_VALUES - 1)) // _PROBES_PER_SAMPLE
        return sampled


def may_be_among(numbers: Numbers, others: Iterable[Numbers]) -> NDArray[np.bool_]:
    """Return a mask of the numbers that share their last bits with any number in `others`.

    It serves as a fast filter: numbers outside of the mask are not among the others.
    """
    like = np.zeros(_ENDS, bool)
    for each in others:
        like[_table_indices(each)] = True
    return like.take(_table_indices(numbers))


def _table_indices(numbers: Numbers) -> NDArray[np.int32]:
    """Return the last bits of each number, its index in a table of known numbers."""
    return numbers.astype(np.int32) & (_ENDS - 1)


def bytes_of_probes(numbers: Numbers, seed: int) -> NDArray[np.uint8]:
    """Return a byte for each number: constants unchanged, probes replaced by random bytes.

    A probe is a number that stands for a byte of a tensor; equal ones give equal bytes for the same
    seed.
    """
    whole = numbers.astype(np.int64)
    mixed = (last_bits(whole).astype(np.uint64) + np.uint64(seed << 24)) * np.uint64(_FACTOR)
    drawn = (mixed >> np.uint64(40)).astype(np.uint8)
    return np.where(is_known(whole), (whole & 255).astype(np.uint8), drawn)
