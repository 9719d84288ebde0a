"""The parameters of one engine, their rules, and values derived from them."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matloom.arch.modes import FLOAT_MODES, FP32_FORMAT, MAC_MODES, MODES
from matloom.arch.numerics import SUPPORTED_ROUNDINGS, Rounding
from matloom.errors import UserError, UserTypeError, did_you_mean, unknown_name_error

#: Version of the instruction and register layout; changes whenever either does.
INTERFACE_VERSION = 8

#: Fields that were added to the original ones, each with its neutral value. A field at that value
#: is left out of the digest and of program files, so adding a field does not change existing ones.
ADDED_FIELDS = {
    **{"time_limit": 0, "parity": 0, "element_stride": 1, "softmax": 0},
    **{"zero_points": 0, "pooling": 0, "channel_tables": 0, "curves": 0},
    **{"transposed_weights": 0, "result_sums": 0},
}

#: Taps in each line of the plain sliding windows that a depthwise EXEC uses.
WINDOW_TAPS = 3

#: Taps in each line of each wide window, the oldest line first. Each window has 15 taps, so all of
#: them end in the same row of the array.
WIDE_WINDOWS = ((15,), (5, 5, 5), (8, 7))


class ConfigError(UserError):
    """A configuration that cannot be built; the message names the field, the rule and the value.

    `field` is the field that breaks its rule; empty if the error is not about a single field.
    """

    field: str = ""
    hint = "docs/configuration.md has the fields and their ranges"


def _is_power_of_two(value: int) -> bool:
    """Return whether a number is a power of two."""
    return value > 0 and value & (value - 1) == 0


def _next_power_of_two(value: int) -> int:
    """Return the smallest power of two that is at least `value`."""
    return 1 << (value - 1).bit_length()


@dataclass(frozen=True, kw_only=True)
class Config:
    """One engine: array, memories, bus and queues.

    Members
    -------
    rows:
        Number of reduction elements that enter the array per cycle.
    columns:
        Number of output channels that the array computes per cycle.
    broadcast_group:
        Number of columns that share one activation register. 1 is the classical systolic array,
        `columns` a pure broadcast. Larger groups save registers and latency, but have longer wires.
    mac_modes:
        Number formats, ``<activation>x<weight>``; each instruction selects one.
    float_rows:
        Number of reduction elements per cycle in a floating-point mode; ignored without one.
    weight_rows:
        Number of rows of weights written to the shadow registers per cycle.
    spad_bytes, spad_banks:
        Scratchpad capacity, and the number of equal banks (high address bits) that it consists of.
        Each bank serves one read and one write per cycle.
    acc_bytes:
        Accumulator capacity; an entry is one 32-bit sum for each column.
    lanes:
        Requantising lanes: output values that post-processing computes per cycle.
    tables:
        1: POST can look bytes up in a table of 256 entries, which computes any function of one
        byte; 2: the table is in block RAM, shared by two lanes, and takes 256 cycles to fill;
        0: no table, and such operators run on the host.
    products:
        1: POST can multiply bytes by accumulators (MUL of two tensors); 2: it can also add bytes to
        accumulators, so that ADD of int8 tensors takes two passes over them instead of three; 3: it
        can also square differences of both (SQUARED_DIFFERENCE); 4: with the mode `i16xi8`, it can
        also multiply words (MUL of int16); 0: none of these.
    windows:
        1: EXEC can slide windows of 3 x 3 taps, if rows and columns allow it; 2: with 16 rows, also
        windows of 1 x 15, 3 x 5 and 2 x 7 taps, for larger kernels; 0: no windows, and depthwise
        layers take a step for each tap.
    paired_windows:
        1: at stride 2, windows take four positions per cycle if `weight_rows` is 4; 0: one.
    maximum:
        1: EXEC can compute maxima; 0: it cannot, and MAX_POOL_2D runs on the host.
    bus_bits:
        Width of the AXI4 data bus.
    outstanding:
        Largest number of outstanding read bursts, and of outstanding write bursts.
    burst_beats:
        Longest AXI burst, in beats.
    address_first:
        1: the data of a write burst wait until its address is accepted, as some memories require;
        0: they may arrive earlier.
    checks:
        1: every address that an instruction uses is checked before it is issued; 0: only those in
        external memory. Without the check, a read beyond the end of an on-chip memory returns an
        undefined value, and a write there is lost or changes another place of that memory.
    queue_depth:
        Number of instructions that can wait at each unit; the units share one memory for them,
        which may be full earlier.
    timestamps:
        Number of entries of the completion-time table; 0: no table, and reports have no cycles of
        layers.
    counters:
        2: every counter; 1: `cycles` only; 0: none. A missing counter reads as zero, and reports
        show predicted cycles instead.
    time_limit:
        1: register LIMIT bounds the cycles of one instruction, and exceeding it is a fault; 0: a
        legal instruction may take any time.
    parity:
        1: each byte of the scratchpad and each accumulator has a parity bit, and reading a word
        with a wrong one is a fault; 0: flipped bits go unnoticed.
    element_stride:
        1: LOAD can spread the bytes of a row, so that first layers use rows of the image as
        channels; 0: it cannot, and they use one channel.
    softmax:
        Number of elements per cycle of POST's SOFTMAX, a divisor of `lanes`; 0: POST has none, and
        SOFTMAX runs on the host.
    zero_points:
        1: EXEC can subtract the zero points of both operands, so that a product of two computed
        tensors takes no longer with zero points; 0: it cannot, and each takes further passes.
    pooling:
        1: POST can write the maximum of each block of 2 x 2 results, so that a MAX_POOL_2D after a
        convolution takes no cycles; 0: it cannot.
    channel_tables:
        1: each lane's table can have contents of its own, so that POST computes functions of a byte
        that differ by channel, such as PRELU; no effect unless `tables` is 1 and there is a lane
        for each column; 0: all tables are equal.
    curves:
        1: with the mode `i16xi8`, POST can compute LOGISTIC and TANH of int16; 0: it cannot, and
        they run on the host.
    transposed_weights:
        1: EXEC can exchange the rows and columns of weight tiles, so that a transposed operand of a
        product of two computed tensors takes no more cycles than any other; needs as many rows as
        columns; 0: it cannot.
    result_sums:
        1: POST can add bytes of another tensor to its results, so that an ADD of int8 tensors
        after a convolution takes no cycles; no effect unless `tables` is 1, `products` at least 2,
        and there are at least 16 columns with a lane for each; 0: it cannot.
    """

    rows: int = 16
    columns: int = 16
    broadcast_group: int = 4
    mac_modes: tuple[str, ...] = ("i8xi8",)
    float_rows: int = 4
    weight_rows: int = 4
    spad_bytes: int = 320 * 1024
    spad_banks: int = 5
    acc_bytes: int = 64 * 1024
    lanes: int = 16
    tables: int = 1
    products: int = 2
    windows: int = 2
    paired_windows: int = 1
    maximum: int = 1
    bus_bits: int = 64
    outstanding: int = 8
    burst_beats: int = 32
    address_first: int = 0
    checks: int = 1
    queue_depth: int = 4
    timestamps: int = 64
    counters: int = 2
    time_limit: int = 0
    parity: int = 0
    element_stride: int = 1
    softmax: int = 0
    zero_points: int = 0
    pooling: int = 0
    channel_tables: int = 0
    curves: int = 0
    transposed_weights: int = 0
    result_sums: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "mac_modes", tuple(self.mac_modes))
        for check in (
            self._check_types,
            self._check_array,
            self._check_units,
            self._check_modes,
            self._check_memories,
            self._check_bus,
        ):
            check()

    def _check_types(self) -> None:
        """Raise `ConfigError` unless every field but `mac_modes` is an integer."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name != "mac_modes" and (type(value) is not int):
                raise ConfigError(f"{field.name} must be an integer, not {value!r}")

    def _require(self, name: str, rule: str, good: bool, verb: str = "be") -> None:
        """Raise `ConfigError` for a field unless its value is good; the message states the rule."""
        if not good:
            error = ConfigError(f"{name} must {verb} {rule}, not {getattr(self, name)!r}")
            error.field = name
            raise error

    def _check_array(self) -> None:
        """Check the fields of the array and the number of lanes."""
        self._require("rows", "4 to 64", 4 <= self.rows <= 64)
        self._require("rows", "a multiple of 4", self.rows % 4 == 0)
        self._require("columns", "4 to 64", 4 <= self.columns <= 64)
        self._require("columns", "a multiple of 4", self.columns % 4 == 0)
        self._require(
            "broadcast_group",
            f"a divisor of columns ({self.columns})",
            self.broadcast_group >= 1 and self.columns % self.broadcast_group == 0,
        )
        self._require(
            "weight_rows",
            f"a divisor of rows ({self.rows})",
            self.weight_rows >= 1 and self.rows % self.weight_rows == 0,
        )
        self._require(
            "lanes",
            f"a divisor of columns ({self.columns})",
            self.lanes >= 1 and self.columns % self.lanes == 0,
        )

    def _check_units(self) -> None:
        """Check the fields that select optional hardware."""
        self._require("tables", "0, 1 or 2", self.tables in (0, 1, 2))
        self._require("products", "0 to 4", self.products in range(5))
        self._require("windows", "0, 1 or 2", self.windows in (0, 1, 2))
        self._require("paired_windows", "0 or 1", self.paired_windows in (0, 1))
        self._require("maximum", "0 or 1", self.maximum in (0, 1))
        self._require(
            "softmax",
            f"0 or a divisor of lanes ({self.lanes})",
            self.softmax == 0 or (self.softmax > 0 and self.lanes % self.softmax == 0),
        )
        self._require("zero_points", "0 or 1", self.zero_points in (0, 1))
        self._require("pooling", "0 or 1", self.pooling in (0, 1))
        self._require("channel_tables", "0 or 1", self.channel_tables in (0, 1))
        self._require("curves", "0 or 1", self.curves in (0, 1))
        self._require("transposed_weights", "0 or 1", self.transposed_weights in (0, 1))
        square = self.rows == self.columns or not self.transposed_weights
        self._require("transposed_weights", "0 unless rows and columns are equal", square)
        self._require("result_sums", "0 or 1", self.result_sums in (0, 1))

    def _check_modes(self) -> None:
        """Check the number formats of activations and weights."""
        if not self.mac_modes:
            raise ConfigError("mac_modes must name at least one mode, not ()")
        for mode in self.mac_modes:
            if mode not in MAC_MODES:
                raise unknown_name_error(ConfigError, "mac_modes", mode, MAC_MODES)
        once = len(set(self.mac_modes)) == len(self.mac_modes)
        self._require("mac_modes", "i8xi8", "i8xi8" in self.mac_modes, "name")
        self._require("mac_modes", "each mode once", once, "name")
        if self.has_float:
            self._check_floats()
        several = self.zero_points and len(self.mac_modes) > 1
        self._require("zero_points", "0 with modes other than i8xi8", not several)

    def _check_floats(self) -> None:
        """Check the fields that floating-point modes restrict."""
        self._require(
            "mac_modes",
            "modes of 4 bits and of floating point together",
            not self.has_narrow,
            "not name",
        )
        self._require(
            "float_rows",
            f"a power of two up to rows / 2 ({self.rows // 2})",
            _is_power_of_two(self.float_rows) and self.float_rows <= self.rows // 2,
        )
        self._require("weight_rows", "even with a floating-point mode", self.weight_rows % 2 == 0)

    def _check_memories(self) -> None:
        """Check the sizes of the scratchpad and the accumulators."""
        self._require("spad_banks", "1 to 16", 1 <= self.spad_banks <= 16)
        self._require(
            "spad_bytes",
            f"a power of two times spad_banks ({self.spad_banks})",
            self.spad_bytes % self.spad_banks == 0 and _is_power_of_two(self.bank_bytes),
        )
        self._require(
            "spad_bytes",
            f"at least 16 lines of {self.line_bytes} bytes per bank",
            self.bank_bytes >= 16 * self.line_bytes,
        )
        self._require("spad_bytes", "at most 16 MiB", self.spad_bytes <= 2**24)
        self._require(
            "acc_bytes",
            f"a power of two times 4 * columns ({4 * self.columns})",
            self.acc_bytes % (4 * self.columns) == 0 and _is_power_of_two(self.acc_entries),
        )
        self._require(
            "acc_bytes", "16 to 32768 entries of all columns", 16 <= self.acc_entries <= 2**15
        )

    def _check_bus(self) -> None:
        """Check the fields of the bus, queues, counters and checks."""
        self._require("bus_bits", "32, 64, 128 or 256", self.bus_bits in (32, 64, 128, 256))
        self._require("outstanding", "1 to 32", 1 <= self.outstanding <= 32)
        self._require(
            "burst_beats",
            "a power of two from 1 to 256",
            _is_power_of_two(self.burst_beats) and self.burst_beats <= 256,
        )
        self._require(
            "burst_beats",
            f"at most 4096 bytes of {self.bus_bytes}-byte beats",
            self.burst_beats * self.bus_bytes <= 4096,
        )
        self._require("address_first", "0 or 1", self.address_first in (0, 1))
        self._require("checks", "0 or 1", self.checks in (0, 1))
        self._require("queue_depth", "1 to 32", 1 <= self.queue_depth <= 32)
        self._require(
            "timestamps",
            "0, or a power of two from 2 to 256",
            self.timestamps == 0
            or (_is_power_of_two(self.timestamps) and 2 <= self.timestamps <= 256),
        )
        self._require("counters", "0 to 2", 0 <= self.counters <= 2)
        self._require("time_limit", "0 or 1", self.time_limit in (0, 1))
        self._require("parity", "0 or 1", self.parity in (0, 1))
        self._require("element_stride", "0 or 1", self.element_stride in (0, 1))
        self._require(
            "timestamps", "0 without `counters`", self.timestamps == 0 or self.counters > 0
        )

    @property
    def bus_bytes(self) -> int:
        """Size of an AXI beat in bytes."""
        return self.bus_bits // 8

    @property
    def last_spread(self) -> int:
        """Largest log2 of the distance of bytes that a LOAD spreads; 0 without `element_stride`.

        Bytes are at most `bus_bytes` apart, so that each write contains at least one byte of a
        beat.
        """
        return min(3, self.bus_bytes.bit_length() - 1) if self.element_stride else 0

    @property
    def weight_bytes(self) -> int:
        """Width in bytes of the wide scratchpad port, which reads weights and paired blocks."""
        return self.weight_rows * self.columns

    @property
    def weight_boundary(self) -> int:
        """Alignment in bytes of weights and paired blocks in the scratchpad, read by the wide port.

        It is the largest power of two that divides the width of the port.
        """
        return self.weight_bytes & -self.weight_bytes

    @property
    def word_bytes(self) -> int:
        """Size in bytes of a scratchpad word: the widest access that may start at any byte."""
        wide = max(-(-self.weight_bytes // 2), self.weight_bytes - self.weight_boundary)
        return _next_power_of_two(max(self.rows, self.columns, self.bus_bytes, wide))

    @property
    def line_bytes(self) -> int:
        """Size in bytes of a scratchpad line: an even and an odd word, side by side.

        Every access touches at most two adjacent words.
        """
        return 2 * self.word_bytes

    @property
    def spad_addr_bits(self) -> int:
        """Width in bits of a scratchpad byte address, and of a distance between two addresses."""
        return (self.spad_bytes - 1).bit_length()

    @property
    def spad_size_bits(self) -> int:
        """Width in bits of a byte count from 0 to the scratchpad's capacity."""
        return self.spad_bytes.bit_length()

    @property
    def row_offset_bits(self) -> int:
        """Width in bits of a signed byte offset from the start of an input row.

        Negative offsets, down to minus the scratchpad's capacity, point before the row.
        """
        return 1 + self.spad_addr_bits

    @property
    def acc_addr_bits(self) -> int:
        """Width in bits of the index of an accumulator entry."""
        return (self.acc_entries - 1).bit_length()

    @property
    def acc_size_bits(self) -> int:
        """Width in bits of a count of accumulator entries, from 0 to all of them."""
        return self.acc_entries.bit_length()

    @property
    def bank_bytes(self) -> int:
        """Capacity of one scratchpad bank in bytes."""
        return self.spad_bytes // self.spad_banks

    @property
    def tile_bytes(self) -> int:
        """Size of a weight tile in bytes: rows x columns, row after row."""
        return self.rows * self.columns

    @property
    def bias_block_bytes(self) -> int:
        """Size in bytes of the biases of one output block: a channel for each column."""
        return 4 * self.columns

    @property
    def scale_block_bytes(self) -> int:
        """Size in bytes of the multipliers and shifts of one output block."""
        return 5 * self.columns

    @property
    def tile_load_cycles(self) -> int:
        """Cycles that it takes to write a weight tile to the shadow registers."""
        return self.rows // self.weight_rows

    @property
    def table_row_bytes(self) -> int:
        """Number of entries of a byte table that one vector fills: a power of two, at most 16."""
        return min(16, 1 << (self.columns.bit_length() - 1))

    @property
    def has_channel_tables(self) -> int:
        """1 if each lane's table can have contents of its own, else 0."""
        return int(bool(self.channel_tables) and self.tables == 1 and self.lanes == self.columns)

    @property
    def table_uses(self) -> tuple[int, ...]:
        """Legal values of POST's field `table`, as `isa.Table` defines them."""
        return (0, 1, 2, 3) if self.has_channel_tables else (0, 1, 2)

    @property
    def byte_tables(self) -> int:
        """Number of byte tables whose contents may differ: one, or one per column."""
        return self.columns if self.has_channel_tables else 1

    @property
    def table_rows(self) -> int:
        """Number of rows in a byte table, each of `table_row_bytes` entries."""
        return 256 // self.table_row_bytes

    @property
    def fills_tables(self) -> int:
        """1 if POST can write its results to a table of bytes or of exponentials, else 0."""
        return int(bool(self.tables or self.softmax))

    @property
    def window_lines(self) -> int:
        """Number of kernel rows, of three taps each, in a depthwise step; 0 without windows."""
        if not self.windows or self.columns > self.rows:
            return 0
        return min(3, self.rows // WINDOW_TAPS)

    @property
    def has_windows(self) -> int:
        """1 if EXEC can slide windows, else 0."""
        return int(self.window_lines > 0)

    @property
    def has_wide_windows(self) -> int:
        """1 if EXEC can slide windows of other shapes than 3 x 3, else 0."""
        return int(self.windows == 2 and self.has_windows and self.rows > sum(WIDE_WINDOWS[0]))

    @property
    def window_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Taps in each line of a window, the oldest line first, for each `window_shape` of EXEC."""
        plain = (WINDOW_TAPS,) * self.window_lines
        return (plain, *(WIDE_WINDOWS if self.has_wide_windows else ()))

    @property
    def window_rows(self) -> int:
        """Number of array rows that the largest window uses."""
        return max(sum(lines) for lines in self.window_shapes)

    @property
    def has_paired_windows(self) -> int:
        """1 if a window can take four positions per cycle through the wide port, else 0."""
        there = self.window_lines == WINDOW_TAPS and self.weight_rows == 4
        return int(there and self.paired_windows)

    @property
    def shares_gather(self) -> bool:
        """Whether STORE reads the scratchpad through POST's port, in cycles that POST leaves free.

        POST reads a vector of bytes at most every other cycle, so at least half of the cycles are
        left for STORE.
        """
        return self.lanes < self.columns

    @property
    def paired_bytes(self) -> int:
        """Number of bytes that a paired window takes per cycle: a block of 2 x 2 positions."""
        return 4 * self.columns

    @property
    def mode_numbers(self) -> tuple[int, ...]:
        """Indices in `MAC_MODES` of the modes that the engine supports, ascending."""
        return tuple(sorted(MAC_MODES.index(mode) for mode in self.mac_modes))

    @property
    def has_narrow(self) -> bool:
        """Whether the engine has a mode that packs two weights into a byte."""
        return any(MODES[mode].is_narrow for mode in self.mac_modes)

    @property
    def has_addends(self) -> bool:
        """Whether POST can add source bytes to the accumulators that it reads."""
        return self.products > 1

    @property
    def has_squares(self) -> bool:
        """Whether POST can square differences of accumulators and source bytes."""
        return self.products > 2

    @property
    def has_result_sums(self) -> bool:
        """Whether POST can add bytes of another tensor to its results."""
        # A table in each lane, whose rows have the four words of a sum.
        fit = self.tables == 1 and self.lanes == self.columns and self.table_row_bytes == 16
        return bool(self.result_sums and fit and self.has_addends)

    @property
    def has_word_products(self) -> bool:
        """Whether POST can multiply words by accumulators."""
        return self.products > 3 and self.has_words

    @property
    def has_curves(self) -> bool:
        """Whether POST can compute LOGISTIC and TANH of words."""
        return bool(self.curves) and self.has_words

    @property
    def addends(self) -> tuple[int, ...]:
        """Legal values of POST's field `addend`, as `isa.Addend` defines them."""
        uses = (True, self.has_addends, self.has_squares, self.has_result_sums)
        return tuple(value for value, there in enumerate(uses) if there)

    @property
    def has_words(self) -> bool:
        """Whether the engine has a mode with activations of two bytes."""
        return any(MODES[mode].activation == "int16" for mode in self.mac_modes)

    @property
    def float_modes(self) -> tuple[str, ...]:
        """Names of the floating-point modes that the engine supports, ordered as in `MAC_MODES`."""
        return tuple(mode for mode in FLOAT_MODES if mode in self.mac_modes)

    def macs_per_cycle(self, mode: str) -> int:
        """Return the number of multiply-accumulates per cycle of a fully used array in a mode.

        A text that names no mode counts as i8xi8; reports have such texts for layers without
        products or with several modes.
        """
        fmt = MODES.get(mode, MODES["i8xi8"])
        elements = self.rows * fmt.macs_of_two_cells // 2
        return (self.float_rows if fmt.is_floating else elements) * self.columns

    @property
    def has_float(self) -> bool:
        """Whether the engine has a floating-point mode."""
        return bool(self.float_modes)

    @property
    def roundings(self) -> tuple[Rounding, ...]:
        """Rounding rules that POST supports."""
        return (*SUPPORTED_ROUNDINGS, *((Rounding.FLOAT,) if self.has_float else ()))

    @property
    def post_formats(self) -> tuple[int, ...]:
        """Legal values of POST's field `pre_shift` under `Rounding.FLOAT`.

        Each stands for the format of scratchpad elements: the index of a floating-point mode, or
        `FP32_FORMAT`.
        """
        return (*(MAC_MODES.index(mode) for mode in self.float_modes), FP32_FORMAT)

    @property
    def element_size_bits(self) -> int:
        """Width in bits of log2(size in bytes of POST's elements); 0 if all elements are bytes."""
        return 2 if self.has_float else int(self.has_words)

    @property
    def acc_update_latency(self) -> int:
        """Minimum cycles between two updates of the same accumulator entry.

        A step of EXEC updates each of its entries once, so it takes at least this long.
        """
        return 10 if self.has_float else 4

    @property
    def acc_entries(self) -> int:
        """Number of accumulator entries, each with a 32-bit sum for every column."""
        return self.acc_bytes // (4 * self.columns)

    @property
    def acc_pairs(self) -> int:
        """Number of pairs of accumulator entries, half of them in each bank.

        Narrow modes address pairs instead of entries.
        """
        return self.acc_entries // 2

    @property
    def pair_distance(self) -> int:
        """Number of accumulator entries between the two entries of a pair: half a bank.

        That is a quarter of all entries.
        """
        return self.acc_entries // 4

    @property
    def last_timestamp(self) -> int:
        """Highest slot of the completion-time table; 0 if there is no table."""
        return max(0, self.timestamps - 1)

    @property
    def reserved(self) -> int:
        """Always 0, so fields with ``needs="reserved"`` are encoded, but exist in no engine."""
        return 0

    @property
    def digest(self) -> int:
        """32-bit digest, which must be the same for a program and for the hardware that runs it.

        It is the first four bytes, in big-endian order, of the SHA-256 of canonical JSON. The JSON
        contains `INTERFACE_VERSION` and all fields, except those that have their value in
        `ADDED_FIELDS`.
        """
        fields = self.as_dict()
        text = json.dumps(
            {
                "interface": INTERFACE_VERSION,
                **{name: fields[name] for name in fields if fields[name] != ADDED_FIELDS.get(name)},
            },
            sort_keys=True,
            separators=(",", ":"),
        )
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary of JSON types."""
        return {**dataclasses.asdict(self), "mac_modes": list(self.mac_modes)}

    def to_json(self) -> str:
        """Return the configuration as a JSON text that `from_json` reads."""
        return json.dumps(self.as_dict(), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Config":
        """Return the configuration that a JSON text holds; raise `ConfigError` if it holds none."""
        try:
            values = json.loads(text, object_pairs_hook=_without_repetition)
        except ConfigError:
            raise
        except (RecursionError, ValueError) as error:
            raise ConfigError(f"a configuration must be JSON: {error}") from None
        if not isinstance(values, dict):
            raise ConfigError(f"a configuration must be a JSON object, not {values!r}")
        known = {field.name for field in dataclasses.fields(cls)}
        for name in values:
            if name not in known:
                raise unknown_name_error(
                    ConfigError, "a field of a configuration", name, sorted(known)
                )
        modes = values.get("mac_modes", ())
        if not isinstance(modes, list | tuple):
            raise ConfigError(f"mac_modes must be a list, not {modes!r}")
        with _default_hint(values, "the file"):
            return cls(**values)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dictionary; raise `ConfigError` if a name repeats."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _value in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"a configuration must give {twice} once", hint="leave one of them out")
    return values


@contextmanager
def _default_hint(names: Collection[str], source: str) -> Iterator[None]:
    """Within the context, add a hint to a `ConfigError` about a field that keeps its default.

    `names` lists the fields that `source` sets; errors about these are raised unchanged.
    """
    try:
        yield
    except ConfigError as error:
        if not error.field or error.field in names:
            raise
        raise ConfigError(
            str(error), hint=f"give {error.field} a value, too: {source} gives it none"
        ) from None


_NANO = Config(
    rows=4,
    columns=4,
    broadcast_group=4,
    weight_rows=1,
    spad_bytes=32 * 1024,
    spad_banks=4,
    acc_bytes=4 * 1024,
    lanes=2,
    tables=0,
    products=0,
    windows=1,
    bus_bits=32,
    outstanding=4,
    burst_beats=16,
    queue_depth=2,
)

_SMALL = Config(
    rows=8,
    columns=8,
    broadcast_group=4,
    weight_rows=1,
    spad_bytes=64 * 1024,
    spad_banks=4,
    acc_bytes=16 * 1024,
    lanes=4,
    tables=0,
    products=0,
    windows=1,
    bus_bits=64,
    outstanding=4,
)

PRESETS = {
    "nano": _NANO,
    # The largest array that routes on an ECP5-25F, whose wires are the limit.
    "mini": dataclasses.replace(_NANO, rows=8, spad_bytes=64 * 1024, acc_bytes=8 * 1024),
    "small": _SMALL,
    # The largest array that routes on an ECP5-85F, and the largest scratchpad that fits its block
    # RAM besides a board's memory and link; with few timestamps, their table needs none.
    "medium": dataclasses.replace(
        _SMALL,
        rows=16,
        columns=16,
        lanes=8,
        windows=2,
        spad_bytes=320 * 1024,
        spad_banks=5,
        acc_bytes=64 * 1024,
        timestamps=16,
    ),
    "reference": Config(pooling=1, channel_tables=1, result_sums=1),
    "large": Config(
        rows=32,
        columns=32,
        weight_rows=2,
        spad_bytes=1024 * 1024,
        spad_banks=8,
        acc_bytes=256 * 1024,
        lanes=32,
        pooling=1,
        channel_tables=1,
        result_sums=1,
        bus_bits=128,
    ),
}


#: Hint for an unknown configuration name.
_NAME_HINT = 'change a preset (small+lanes=4), or write a file of fields ({"rows": 8})'


def load_config(source: "str | Path | Config") -> Config:
    """Return the configuration that `source` names; a Config is returned unchanged.

    A text is the path of a JSON file or the name of a preset, optionally followed by modes to add
    and fields to change, each after a plus sign: ``small+i8xi4+lanes=8``.
    """
    if isinstance(source, Config):
        return source
    if not isinstance(source, str | Path):
        raise UserTypeError(
            f"config must be a preset, a JSON file or a Config, not {source!r}",
            hint="pass config='nano', a path, or matloom.Config(...)",
        )
    name, *changes = str(source).split("+")
    if name in PRESETS:
        return _apply_changes(PRESETS[name], changes) if changes else PRESETS[name]
    path = Path(source)
    if path.suffix == ".json" and not path.exists():
        raise ConfigError(f"cannot read {path}: no such file", hint=_NAME_HINT)
    if not path.is_file():
        near = name if changes else str(source)
        raise unknown_name_error(
            ConfigError, "config", near, PRESETS, " or a JSON file", hint=_NAME_HINT
        )
    try:
        return Config.from_json(path.read_text())
    except UnicodeDecodeError:
        raise ConfigError(f"config must be a JSON file in UTF-8, not {str(source)!r}") from None


def _apply_changes(config: Config, changes: list[str]) -> Config:
    """Return a configuration with modes added and fields replaced.

    A change is the name of a mode or ``FIELD=NUMBER``; the last of several for a field holds.
    Raises `ConfigError` if a change is neither, or if it adds a mode that is already there.
    """
    modes, values = list(config.mac_modes), {}
    numbers = [field.name for field in dataclasses.fields(config) if field.name != "mac_modes"]
    for change in changes:
        name, sign, value = change.partition("=")
        if not sign and change in numbers:
            now = getattr(config, change)
            raise ConfigError(
                f"{change} needs a number", hint=f"write {change}={now}, as it is now"
            )
        if not sign and change not in MAC_MODES:
            known = [*MAC_MODES, *numbers]
            raise ConfigError(
                f"a change must be a mode ({', '.join(MAC_MODES)}) or FIELD=NUMBER, not {change!r}",
                hint=did_you_mean(change, known),
            )
        if change in modes:
            raise ConfigError(f"mode {change} is already there", hint=f"leave out +{change}")
        if not sign:
            modes.append(change)
        elif name == "mac_modes":
            raise ConfigError(
                f"modes are added by their names, not by {change!r}",
                hint="write +i8xi4; i8xi8 is there already",
            )
        elif name not in numbers:
            raise ConfigError(
                f"no number of a configuration is called {name!r}",
                hint=did_you_mean(name, numbers),
            )
        elif not re.fullmatch(r"[+-]?[0-9]+", value):
            raise ConfigError(f"{name} must be an integer, not {value!r}")
        else:
            values[name] = int(value)
    with _default_hint([*values, "mac_modes"], "the preset's name"):
        return dataclasses.replace(config, mac_modes=tuple(modes), **values)
