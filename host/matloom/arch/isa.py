"""The instruction set: opcodes, formats, and the memory that each instruction accesses.

Decoder, bounds checker, functional model, compiler, verifier, disassembler, C header, reference
page and random stimuli all derive from the tables here.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from matloom.arch.config import Config
from matloom.arch.curves import Curve
from matloom.arch.extents import EndFunction, end_function
from matloom.arch.modes import FP32_FORMAT, MAC_MODES, MODES, NARROW_MODES
from matloom.arch.numerics import SUPPORTED_ROUNDINGS, Rounding

#: Instructions are one to three instruction words long; the opcode tells how many.
INSTRUCTION_WORD_BYTES = 16


#: Condition on an instruction: pairs of a field and the values that it may have. All must hold.
_Only = tuple[tuple[str, tuple[int, ...]], ...]


def _float_numbers(bits: int) -> tuple[int, ...]:
    """Return the indices in `MAC_MODES` of floating-point modes with operands of `bits` bits."""
    floats = [(number, mode) for number, mode in enumerate(MODES.values()) if mode.is_floating]
    return tuple(number for number, mode in floats if mode.activation_bits == bits)


#: Indices in `MAC_MODES` of the modes whose EXEC addresses pairs of accumulator entries, and of all
#: other modes.
NARROW = tuple(MAC_MODES.index(mode) for mode in NARROW_MODES)
_WIDE = tuple(number for number in range(len(MAC_MODES)) if number not in NARROW)


class Opcode(enum.IntEnum):
    """Operation of an instruction; all except END are also names of the units that execute them."""

    END = 0
    LOAD = 1
    EXEC = 2
    POST = 3
    STORE = 4


#: Units in the order of their `wait` fields; unit k of the fault record is `UNITS[k - 1]`.
UNITS = (Opcode.LOAD, Opcode.EXEC, Opcode.POST, Opcode.STORE)


class Region(enum.IntEnum):
    """Window of external memory; each has a base register and a size register."""

    PROGRAM = 0
    INPUT = 1
    OUTPUT = 2
    ARENA = 3


#: Regions to which STORE may write; STORE to any other region is a fault.
WRITABLE_REGIONS = (Region.OUTPUT, Region.ARENA)


class Source(enum.IntEnum):
    """Source of POST's values: accumulators, or int8 bytes of the scratchpad."""

    ACC = 0
    SPAD = 1


class Destination(enum.IntEnum):
    """Destination of POST's results: int8 bytes, or 32-bit sums set or added to."""

    SPAD = 0
    ACC_SET = 1
    ACC_ADD = 2


class Table(enum.IntEnum):
    """Use of the tables by POST: none, replace each byte by its entry, or fill them.

    Each lane has a table. FILL writes the same contents to all of them, FILL_EACH fills one after
    another.
    """

    NONE = 0
    LOOK_UP = 1
    FILL = 2
    FILL_EACH = 3


class Addend(enum.IntEnum):
    """Operation of POST on a source byte and its accumulator, other than a product.

    ADD adds the two, SQUARE squares their difference, and RESULT adds the byte to the accumulator's
    requantised result by means of the tables (`arch.result_sums`).
    """

    NONE = 0
    ADD = 1
    SQUARE = 2
    RESULT = 3


class RowFunction(enum.IntEnum):
    """Function that POST applies to whole rows of bytes.

    NONE applies none, SOFTMAX computes the softmax of each row, and FILL fills its table of
    exponentials.
    """

    NONE = 0
    SOFTMAX = 1
    FILL = 2


class AddressSpace(enum.IntEnum):
    """Memory of an `Extent`. Addresses count bytes, except in ACC, where they count entries."""

    SPAD = 0
    ACC = 1
    DRAM = 2


@dataclass(frozen=True, kw_only=True)
class Field:
    """Bit field of an instruction, with its legal values.

    `low` and `high` bound the legal values (`high` may name a Config property); `None` means the
    limit of the bits. `choices` lists all legal values, or names a Config property that does. A
    legal value is a multiple of the Config property `multiple`, which is a power of two. A `plain`
    field must be 0 in every mode but i8xi8. If the Config property `needs` is 0, the field does not
    exist and its bits are reserved. `span` names a Config property, a number of bits that suffices
    for useful values: higher bits must be 0, or copies of the sign.
    """

    name: str
    bits: int
    doc: str
    signed: bool = False
    low: int | None = None
    high: int | str | None = None
    choices: tuple[int, ...] | str | None = None
    multiple: str | None = None
    plain: bool = False
    needs: str | None = None
    span: str | None = None

    def exists(self, config: Config) -> bool:
        """Return whether a configuration has the field."""
        return self.needs is None or bool(getattr(config, self.needs))

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest value that the bits can hold."""
        return self._range(self.bits)

    def _range(self, bits: int) -> tuple[int, int]:
        """Return the smallest and the largest value of a number of bits."""
        if self.signed:
            return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        return 0, (1 << bits) - 1

    def span_bits(self, config: Config) -> int:
        """Return the number of bits that a configuration needs for the field's values."""
        return self.bits if self.span is None else min(self.bits, getattr(config, self.span))

    def limits(self, config: Config) -> tuple[int, int]:
        """Return the smallest and the largest legal value in a configuration.

        `choices` and `multiple` may exclude values in between. Both limits are 0 if the field does
        not exist.
        """
        if not self.exists(config):
            return 0, 0
        smallest, largest = self._range(self.span_bits(config))
        low = smallest if self.low is None else self.low
        high = getattr(config, self.high) if isinstance(self.high, str) else self.high
        return low, largest if high is None else high

    def width(self, config: Config) -> int:
        """Return the number of bits that hold every legal value in a configuration, at least 1."""
        allowed = self.allowed_values(config)
        low, high = self.limits(config) if allowed is None else (min(allowed), max(allowed))
        if self.signed:
            return 1 + max(high.bit_length(), (~low).bit_length())
        return max(1, high.bit_length())

    def unit(self, config: Config) -> int:
        """Return the integer of which every legal value is a multiple; 1 without `multiple`."""
        return 1 if self.multiple is None else int(getattr(config, self.multiple))

    def allowed_values(self, config: Config) -> tuple[int, ...] | None:
        """Return the legal values in a configuration; None if only `limits` restrict them."""
        if not self.exists(config):
            return None
        return getattr(config, self.choices) if isinstance(self.choices, str) else self.choices


@dataclass(frozen=True, kw_only=True)
class Extent:
    """Addresses ``base .. base + sum of terms - 1`` that an instruction reads or writes.

    Each term is a product of factors: ``"name"`` is the value of a field, ``"name-1"`` that value
    minus one, ``"name/2"`` its half, rounded down, ``"name%2"`` its remainder modulo 2, ``"@name"``
    a Config property, and ``"8"`` a constant. The extent applies only if every field in `only` has
    one of the values listed there. DRAM extents are offsets in the region that the field `region`
    selects.
    """

    memory: AddressSpace
    write: bool
    base: str
    terms: tuple[tuple[str, ...], ...]
    only: _Only = ()

    @cached_property
    def end(self) -> EndFunction:
        """Function that returns the first address after the extent; None if it does not apply.

        Its parameters are a lookup of field values (``values.get``) and the configuration.
        """
        return end_function(self.base, self.terms, self.only)


@dataclass(frozen=True, kw_only=True)
class Format:
    """Layout of the instructions with one opcode, and the memory that they access.

    `fields` lists the fields after the head (`HEAD`), which all formats share.
    """

    opcode: Opcode
    instruction_words: int
    doc: str
    fields: tuple[Field, ...] = ()
    extents: tuple[Extent, ...] = ()

    @cached_property
    def all_fields(self) -> tuple[Field, ...]:
        """Head and body fields, from bit 0 up; the remaining bits of the words must be zero."""
        return HEAD + self.fields

    @property
    def bits(self) -> int:
        """Length of the instruction in bits, including reserved ones."""
        return self.instruction_words * INSTRUCTION_WORD_BYTES * 8

    @cached_property
    def used_bits(self) -> int:
        """Number of bits that belong to a field."""
        return sum(item.bits for item in self.all_fields)


_WAIT = "must have completed the instruction issued this many {} before; 0 waits for nothing"

HEAD = (
    Field(name="opcode", bits=4, doc="the operation", choices=tuple(Opcode)),
    Field(
        name="timestamp",
        bits=8,
        high="last_timestamp",
        doc="slot of the completion-time table, 0 for none",
    ),
    Field(name="wait_load", bits=6, doc="LOAD " + _WAIT.format("LOADs")),
    Field(name="wait_exec", bits=6, doc="EXEC " + _WAIT.format("EXECs")),
    Field(name="wait_post", bits=6, doc="POST " + _WAIT.format("POSTs")),
    Field(name="wait_store", bits=6, doc="STORE " + _WAIT.format("STOREs")),
)

_LOAD_FILL = Field(name="fill", bits=1, doc="1: write `fill_value`, read no external memory")
_STORE_FILL = Field(name="fill", bits=1, doc="must be 0", choices=(0,))

_LOAD_SPREAD = Field(
    name="spread",
    bits=2,
    high="last_spread",
    needs="element_stride",
    doc="bytes of a row lie 1 << `spread` apart in the scratchpad; those between stay as they are",
)
_STORE_SPREAD = Field(name="spread", bits=2, doc="must be 0", choices=(0,))

_TRANSFER = (
    Field(name="region", bits=2, doc="window of external memory", choices=tuple(Region)),
    Field(name="fill_value", bits=8, doc="byte that a fill writes"),
    Field(name="dram_offset", bits=32, doc="first byte in the region"),
    Field(name="spad_addr", bits=24, span="spad_addr_bits", doc="first byte in the scratchpad"),
    Field(
        name="row_bytes",
        bits=21,
        span="spad_size_bits",
        low=1,
        doc="bytes of a row, contiguous in external memory",
    ),
    Field(name="rows", bits=12, low=1, doc="rows of a plane"),
    Field(name="planes", bits=12, low=1, doc="planes"),
    Field(name="dram_row_step", bits=24, doc="bytes from row to row in external memory"),
    Field(name="dram_plane_step", bits=24, doc="bytes from plane to plane in external memory"),
    Field(
        name="spad_row_step",
        bits=21,
        span="spad_addr_bits",
        doc="bytes from row to row in the scratchpad",
    ),
    Field(
        name="spad_plane_step",
        bits=21,
        span="spad_addr_bits",
        doc="bytes from plane to plane in the scratchpad",
    ),
)


def _transfer_extents(load: bool) -> tuple[Extent, ...]:
    """Return the addresses that a LOAD or STORE accesses in the scratchpad and in a region."""

    def terms(side: str) -> tuple[tuple[str, ...], ...]:
        """Return the distances between rows and planes on one side, ``spad`` or ``dram``."""
        return ("rows-1", f"{side}_row_step"), ("planes-1", f"{side}_plane_step")

    def spad(row: tuple[tuple[str, ...], ...], only: _Only) -> Extent:
        """Return the scratchpad addresses for rows of these bytes, if `only` applies."""
        return Extent(
            memory=AddressSpace.SPAD,
            write=load,
            base="spad_addr",
            terms=(*terms("spad"), *row),
            only=only,
        )

    dram = Extent(
        memory=AddressSpace.DRAM,
        write=not load,
        base="dram_offset",
        terms=(*terms("dram"), ("row_bytes",)),
        only=(("fill", (0,)),),
    )
    dense: _Only = (("spread", (0,)),) if load else ()
    spread = [
        spad((("row_bytes-1", str(1 << each)), ("1",)), (("spread", (each,)),))
        for each in (1, 2, 3)
    ]
    return spad((("row_bytes",),), dense), *(spread if load else ()), dram


_EXEC = (
    Field(
        name="mode",
        bits=4,
        doc="number format, an index in MAC_MODES; it must be built",
        choices="mode_numbers",
    ),
    Field(name="accumulate", bits=1, doc="1: the first step adds to what the entries hold"),
    Field(
        name="maximum",
        bits=1,
        doc="1: keep the larger of sum and entry instead of adding, by their 17 low bits as signed "
        "numbers; 0 except in mode 0",
        plain=True,
        needs="maximum",
    ),
    Field(name="weights_fixed", bits=1, doc="1: one weight tile serves every step"),
    Field(
        name="input_addr",
        bits=24,
        span="spad_addr_bits",
        doc="scratchpad byte of row 0, byte 0 of the input",
    ),
    Field(
        name="input_pitch", bits=20, span="spad_addr_bits", doc="bytes from input row to input row"
    ),
    Field(name="input_rows", bits=12, low=1, doc="rows of the input; others read as padding"),
    Field(
        name="input_row_bytes",
        bits=20,
        span="spad_size_bits",
        low=1,
        doc="bytes of an input row; other rows are equally long",
    ),
    Field(name="first_row", bits=14, signed=True, doc="input row of output (0, 0), tap (0, 0)"),
    Field(
        name="first_byte",
        bits=22,
        span="row_offset_bits",
        signed=True,
        doc="byte within that row",
    ),
    Field(name="pad_value", bits=8, signed=True, doc="value of padding bytes"),
    Field(name="width", bits=12, low=1, doc="output positions in a row"),
    Field(name="height", bits=12, low=1, doc="output rows"),
    Field(
        name="x_step",
        bits=16,
        span="spad_addr_bits",
        doc="input bytes from one output position to the next",
    ),
    Field(name="y_step", bits=8, doc="input rows from one output row to the next"),
    Field(name="kernel_rows", bits=8, low=1, doc="kernel taps downwards"),
    Field(name="kernel_row_step", bits=8, doc="input rows from tap to tap"),
    Field(
        name="kernel_cols",
        bits=8,
        low=1,
        doc="kernel taps sideways, unless they are one run of bytes",
    ),
    Field(
        name="kernel_col_step", bits=16, span="spad_addr_bits", doc="input bytes from tap to tap"
    ),
    Field(name="blocks", bits=12, low=1, doc="blocks of `rows` contiguous bytes for each tap"),
    Field(
        name="oc_blocks",
        bits=12,
        low=1,
        doc="blocks of `columns` output channels; in modes 1 and 2 pairs of blocks",
    ),
    Field(
        name="oc_step", bits=16, span="spad_addr_bits", doc="input bytes from output block to block"
    ),
    Field(
        name="weight_addr",
        bits=24,
        span="spad_addr_bits",
        doc="scratchpad byte of the first weight tile",
        multiple="weight_boundary",
    ),
    Field(
        name="acc_addr",
        bits=16,
        span="acc_addr_bits",
        doc="first accumulator entry; in modes 1 and 2 the first pair of entries",
    ),
    Field(
        name="window",
        bits=1,
        high="has_windows",
        doc="1: depthwise; rows are taps, and a column sees only its own byte of the vectors; "
        "0 except in mode 0",
        plain=True,
    ),
    Field(
        name="line",
        bits=8,
        doc="vectors from line to line of the window, at least 3; zero point of the weights, as a "
        "signed byte, with `zero_points`",
    ),
    Field(name="first_output", bits=10, doc="vectors of a step before its first output"),
    Field(name="out_width", bits=12, span="acc_size_bits", doc="outputs of a line"),
    Field(name="out_height", bits=12, span="acc_size_bits", doc="lines with outputs"),
    Field(name="out_x_skip", bits=2, doc="vectors without output between two outputs of a line"),
    Field(name="out_y_skip", bits=2, doc="lines without output between two lines with outputs"),
    Field(
        name="paired",
        bits=1,
        doc="1: the vectors of a window are blocks of 2 x 2 positions, `4 * columns` bytes; one "
        "that is not in its row as a whole is padding; all addresses and steps of the input are "
        "multiples of `weight_boundary`, and `blocks` is 1; irrelevant without `window`",
        plain=True,
        needs="has_paired_windows",
    ),
    Field(
        name="weights_wait_post",
        bits=1,
        doc="1: weights are fetched once `wait_post` is met, too: POST may have written them",
    ),
    Field(
        name="window_shape",
        bits=2,
        doc="taps of a window's lines, the oldest first: 0 three lines of 3, fewer if there are "
        "fewer rows; 1 one of 15; 2 three of 5; 3 one of 8 and one of 7; irrelevant without "
        "`window`, and with `paired`",
        plain=True,
        needs="has_wide_windows",
    ),
    Field(
        name="zero_points",
        bits=1,
        doc="1: subtracts zero points before multiplying: `pad_value` from bytes of the input, so "
        "that padding is 0, and `line` from weights; irrelevant with `window`",
        plain=True,
        needs="zero_points",
    ),
    Field(
        name="weights_transposed",
        bits=1,
        doc="1: the rows of a weight tile in memory are the columns of the array",
        plain=True,
        needs="transposed_weights",
    ),
)

#: Fields of EXEC that must be multiples of `Config.weight_boundary` in paired windows.
BLOCK_STEPS = (
    *("input_addr", "input_pitch", "first_byte"),
    *("x_step", "kernel_col_step", "oc_step"),
)

_EXEC_STEPS = ("oc_blocks", "kernel_rows", "kernel_cols", "blocks")

_EXEC_EXTENTS = (
    Extent(
        memory=AddressSpace.SPAD,
        write=False,
        base="input_addr",
        terms=(("input_rows-1", "input_pitch"), ("input_row_bytes",)),
    ),
    Extent(
        memory=AddressSpace.SPAD,
        write=False,
        base="weight_addr",
        terms=((*_EXEC_STEPS, "@tile_bytes"),),
        only=(("weights_fixed", (0,)),),
    ),
    Extent(
        memory=AddressSpace.SPAD,
        write=False,
        base="weight_addr",
        terms=(("@tile_bytes",),),
        only=(("weights_fixed", (1,)),),
    ),
    Extent(
        memory=AddressSpace.ACC,
        write=True,
        base="acc_addr",
        terms=(("oc_blocks", "height", "width"),),
        only=(("window", (0,)), ("mode", _WIDE)),
    ),
    Extent(
        memory=AddressSpace.ACC,
        write=True,
        base="acc_addr",
        terms=(("oc_blocks", "out_height", "out_width"),),
        only=(("window", (1,)),),
    ),
    Extent(
        # The second half of the entries follows the first, by which pairs are numbered.
        memory=AddressSpace.ACC,
        write=True,
        base="acc_addr",
        terms=(("oc_blocks", "height", "width"), ("@acc_pairs",)),
        only=(("mode", NARROW),),
    ),
)

_POST = (
    Field(name="source", bits=1, doc="0 accumulators, 1 scratchpad bytes", choices=tuple(Source)),
    Field(
        name="destination",
        bits=2,
        doc="0 scratchpad bytes, 1 set accumulators, 2 add to accumulators",
        choices=tuple(Destination),
    ),
    Field(name="rounding", bits=3, doc="the rounding rule", choices="roundings"),
    Field(name="channel_bias", bits=1, doc="1: `bias` for each channel from the parameters"),
    Field(name="channel_scale", bits=1, doc="1: `multiplier` and `shift`, too"),
    Field(
        name="pre_shift",
        bits=5,
        doc="left shift before the multiplication; under FLOAT the format of scratchpad elements: "
        "the number of its mode, or 8 for fp32",
    ),
    Field(
        name="bias",
        bits=32,
        signed=True,
        doc="added first, for all channels; under FLOAT an fp32 pattern",
    ),
    Field(name="multiplier", bits=32, low=0, high=2**31 - 1, doc="Q0.31, for all channels"),
    Field(name="shift", bits=8, signed=True, low=-31, high=30, doc="power of two of the scale"),
    Field(name="output_zero", bits=8, signed=True, doc="zero point added to byte results"),
    Field(
        name="clamp_low",
        bits=8,
        signed=True,
        doc="smallest byte result; under FLOAT the pattern of the smallest result in fp8_e5m2",
    ),
    Field(name="clamp_high", bits=8, signed=True, doc="largest result"),
    Field(name="width", bits=12, low=1, doc="positions in a row"),
    Field(name="height", bits=12, low=1, doc="rows"),
    Field(name="oc_blocks", bits=12, low=1, doc="blocks of `columns` channels"),
    Field(name="tail", bits=8, low=1, high="columns", doc="channels of the last block"),
    Field(
        name="x_step",
        bits=16,
        span="spad_addr_bits",
        doc="scratchpad bytes from position to position, both sides",
    ),
    Field(name="acc_addr", bits=16, span="acc_addr_bits", doc="first accumulator entry"),
    Field(
        name="source_addr",
        bits=24,
        span="spad_addr_bits",
        doc="scratchpad byte of the first source value",
    ),
    Field(name="source_pitch", bits=20, span="spad_addr_bits", doc="bytes from source row to row"),
    Field(
        name="dest_addr", bits=24, span="spad_addr_bits", doc="scratchpad byte of the first result"
    ),
    Field(name="dest_pitch", bits=20, span="spad_addr_bits", doc="bytes from result row to row"),
    Field(
        name="param_addr",
        bits=24,
        span="spad_addr_bits",
        doc="scratchpad byte of the first parameter block",
    ),
    Field(
        name="table",
        bits=2,
        doc="1: each byte result is replaced by its table entry; 2: byte results fill the table; "
        "3: byte results fill the tables of all lanes, one after another, the first lane's first",
        choices="table_uses",
        needs="tables",
    ),
    Field(
        name="product",
        bits=1,
        doc="1: a source byte minus `factor_zero` is multiplied by its accumulator's low 9 bits, "
        "or a word by the low 16 if `products` is 4",
        needs="products",
    ),
    Field(
        name="factor_zero",
        bits=8,
        signed=True,
        doc="zero point of source elements in products, and of bytes that are added",
        needs="products",
    ),
    Field(
        name="pairs",
        bits=1,
        doc="1: blocks of accumulators come in turn from the first and second entries of pairs, "
        "as modes 1 and 2 leave them; `acc_addr` is the first pair",
        needs="has_narrow",
    ),
    Field(
        name="words",
        bits=1,
        doc="1: scratchpad elements are int16, little-endian, on both sides; 0 under FLOAT, with "
        "a table, and with `product` unless `products` is 4",
        needs="has_words",
    ),
    Field(
        name="low_byte",
        bits=8,
        doc="of words, the lower byte of the smallest result; `clamp_low` is the upper one",
        needs="has_words",
    ),
    Field(
        name="high_byte",
        bits=8,
        doc="of words, the lower byte of the largest result",
        needs="has_words",
    ),
    Field(
        name="addend",
        bits=2,
        doc="1: a source byte minus `factor_zero`, shifted left by 19, is added to its "
        "accumulator, which stays as it is; 2: the same, shifted left by 6, is subtracted, and the "
        "low 16 bits of the difference, as a signed number, are squared; 3: the accumulator makes "
        "a byte, and the tables make the sum of this and the source byte; 0 with `product`, with "
        "words and under FLOAT",
        choices="addends",
        needs="has_addends",
    ),
    Field(
        name="params_wait",
        bits=1,
        doc="1: parameters are not fetched before all waits are met: POST wrote them",
        needs="reserved",
    ),
    Field(
        name="dest_block_step",
        bits=13,
        doc="an eighth of the bytes from block to block of the results; 0: they lie side by side",
        needs="reserved",
    ),
    Field(
        name="curve",
        bits=2,
        doc="1, 2: each result, over 12288, becomes its LOGISTIC or TANH in Q0.15; zero point and "
        "limits do not matter; 0 unless words go to the scratchpad",
        choices=tuple(Curve),
        needs="has_curves",
    ),
    Field(
        name="pool",
        bits=1,
        doc="1: a byte is the maximum of the results for a block of 2 x 2 sums, which lie in rows "
        "of `2 * width` entries; from the accumulators to the scratchpad; 0 with `pairs`, words "
        "and under FLOAT",
        needs="pooling",
    ),
    Field(
        name="softmax",
        bits=2,
        doc="1: all channels of a row of bytes become their SOFTMAX, `width` is 1; bias, scale, "
        "zero point and limits do not matter; 2: byte results fill the table of exponentials; "
        "source and destination are in the scratchpad; 0 with a table, a product, `addend`, words "
        "and under FLOAT",
        choices=tuple(RowFunction),
        needs="softmax",
    ),
)

#: Values of POST's field `table` with which POST writes tables.
FILLS = (Table.FILL, Table.FILL_EACH)

#: Fields of POST that must be 0 unless elements are bytes; `product` may be 1 with words if
#: `Config.has_word_products`.
BYTES_ONLY = ("table", "product", "addend", "softmax", "pool")


def byte_only_fields(config: Config) -> tuple[str, ...]:
    """Return the fields of POST that must be 0 in this configuration if elements are words."""
    return tuple(name for name in BYTES_ONLY if name != "product" or not config.has_word_products)


#: Values that other fields must have if `softmax` is not 0; `REQUIRED_WITH_ROWS`: further ones if
#: it is `RowFunction.SOFTMAX`.
REQUIRED_WITH_SOFTMAX = {
    "source": int(Source.SPAD),
    "destination": int(Destination.SPAD),
    "table": int(Table.NONE),
    "product": 0,
    "addend": 0,
}
REQUIRED_WITH_ROWS = {"width": 1}

#: Values that other fields must have if `addend` is `Addend.RESULT`.
REQUIRED_WITH_RESULT = {
    "source": int(Source.SPAD),
    "destination": int(Destination.SPAD),
    "table": int(Table.NONE),
}

#: Values that other fields must have if `curve` is not 0.
REQUIRED_WITH_CURVE = {"destination": int(Destination.SPAD), "words": 1}

#: Values that other fields must have if `pool` is 1.
REQUIRED_WITH_POOL = {"source": int(Source.ACC), "destination": int(Destination.SPAD), "pairs": 0}


#: Sizes in bytes of POST's scratchpad elements, each with the condition under which it applies.
_POST_ELEMENTS: tuple[tuple[int, _Only], ...] = (
    *(
        (1 + words, (("rounding", tuple(SUPPORTED_ROUNDINGS)), ("words", (words,))))
        for words in (0, 1)
    ),
    *(
        (size, (("rounding", (Rounding.FLOAT,)), ("pre_shift", formats)))
        for size, formats in (
            (1, _float_numbers(8)),
            (2, _float_numbers(16)),
            (4, (FP32_FORMAT,)),
        )
    ),
)


def _post_elements(side: str, write: bool, only: _Only) -> tuple[Extent, ...]:
    """Return a POST's scratchpad addresses on side ``source`` or ``dest``, if `only` applies."""

    def extent(size: int, of_size: _Only) -> Extent:
        """Return the addresses for elements of `size` bytes."""
        times = () if size == 1 else (str(size),)
        return Extent(
            memory=AddressSpace.SPAD,
            write=write,
            base=f"{side}_addr",
            terms=(
                ("height-1", f"{side}_pitch"),
                ("width-1", "x_step"),
                ("oc_blocks-1", "@columns", *times),
                ("tail", *times),
            ),
            only=(*only, *of_size),
        )

    return tuple(extent(size, of_size) for size, of_size in _POST_ELEMENTS)


def post_element_bytes(values: Mapping[str, int]) -> int:
    """Return the size in bytes of the scratchpad elements that a POST reads and writes.

    `values` holds the fields of the POST. Raises ValueError if `pre_shift` is no number of a format
    under FLOAT.
    """
    if values.get("rounding") != Rounding.FLOAT:
        return 1 + values.get("words", 0)
    number = values.get("pre_shift", 0)
    for size, only in _POST_ELEMENTS:
        if any(name == "pre_shift" and number in formats for name, formats in only):
            return size
    raise ValueError(f"POST.pre_shift must be the number of a format under FLOAT, not {number}")


def post_vector_count(values: Mapping[str, int]) -> int:
    """Return the number of vectors (one byte or sum per column) that a POST reads per output block.

    `values` has the POST's fields by name. With `pool`, each result needs four vectors.
    """
    return values["width"] * values["height"] * (4 if values.get("pool") else 1)


def _post_entries(write: bool, only: _Only) -> tuple[Extent, ...]:
    """Return the accumulator entries of a POST, in order or as pairs, if `only` applies."""
    counted = (
        (("oc_blocks", "height", "width"),),
        # The number of pairs is half of the blocks, rounded up.
        (
            ("oc_blocks/2", "height", "width"),
            ("oc_blocks%2", "height", "width"),
            ("@acc_pairs",),
        ),
    )
    return tuple(
        Extent(
            memory=AddressSpace.ACC,
            write=write,
            base="acc_addr",
            terms=terms,
            only=(*only, ("pairs", (pairs,))),
        )
        for pairs, terms in enumerate(counted)
    )


_POST_EXTENTS = (
    *_post_elements("source", False, (("source", (Source.SPAD,)),)),
    *_post_elements(
        "dest",
        True,
        (
            ("destination", (Destination.SPAD,)),
            ("table", (Table.NONE, Table.LOOK_UP)),
            ("softmax", (RowFunction.NONE, RowFunction.SOFTMAX)),
        ),
    ),
    *_post_entries(False, (("source", (Source.ACC,)), ("pool", (0,)))),
    Extent(
        memory=AddressSpace.ACC,
        write=False,
        base="acc_addr",
        terms=(("oc_blocks", "height", "width", "4"),),
        only=(("source", (Source.ACC,)), ("pool", (1,))),
    ),
    *_post_entries(False, (("source", (Source.SPAD,)), ("product", (1,)))),
    *_post_entries(False, (("source", (Source.SPAD,)), ("addend", tuple(Addend)[1:]))),
    *_post_entries(True, (("destination", (Destination.ACC_SET, Destination.ACC_ADD)),)),
    Extent(
        memory=AddressSpace.SPAD,
        write=False,
        base="param_addr",
        terms=(
            ("oc_blocks", "channel_bias", "@bias_block_bytes"),
            ("oc_blocks", "channel_scale", "@scale_block_bytes"),
        ),
    ),
)

FORMATS = {
    item.opcode: item
    for item in (
        Format(opcode=Opcode.END, instruction_words=1, doc="wait for every unit, then report done"),
        Format(
            opcode=Opcode.LOAD,
            instruction_words=2,
            doc="external memory, or a constant byte, to the scratchpad",
            fields=(_LOAD_FILL, *_TRANSFER, _LOAD_SPREAD),
            extents=_transfer_extents(load=True),
        ),
        Format(
            opcode=Opcode.EXEC,
            instruction_words=3,
            doc="stream an input through the array into accumulators",
            fields=_EXEC,
            extents=_EXEC_EXTENTS,
        ),
        Format(
            opcode=Opcode.POST,
            instruction_words=3,
            doc="requantise accumulators or bytes",
            fields=_POST,
            extents=_POST_EXTENTS,
        ),
        Format(
            opcode=Opcode.STORE,
            instruction_words=2,
            doc="scratchpad to external memory",
            fields=(_STORE_FILL, *_TRANSFER, _STORE_SPREAD),
            extents=_transfer_extents(load=False),
        ),
    )
}


def largest(opcode: Opcode, name: str) -> int:
    """Return the largest value that the bits of a field can hold.

    Raises `KeyError` if instructions with this opcode have no such field.
    """
    return {item.name: item.range[1] for item in FORMATS[opcode].all_fields}[name]


def fields_of(opcode: Opcode, config: Config) -> tuple[Field, ...]:
    """Return the fields of an opcode, without the head, that exist in a configuration."""
    return tuple(item for item in FORMATS[opcode].fields if item.exists(config))


def extents_of(opcode: Opcode, config: Config) -> tuple[Extent, ...]:
    """Return the extents that a legal instruction may have in a configuration.

    Conditions that always hold in the configuration are removed, and so are extents whose
    conditions never hold.
    """
    known: dict[str, set[int]] = {
        "mode": set(config.mode_numbers),
        "rounding": set(config.roundings),
        # A condition on it implies the rule FLOAT.
        "pre_shift": set(config.post_formats),
        "addend": set(config.addends),
    }
    known |= {item.name: {0} for item in FORMATS[opcode].fields if not item.exists(config)}
    found = []
    for extent in FORMATS[opcode].extents:
        only = tuple(
            (name, tuple(sorted(known[name].intersection(values))) if name in known else values)
            for name, values in extent.only
            if name not in known or not known[name].issubset(values)
        )
        if all(values for _name, values in only):
            found.append(replace(extent, only=only))
    return tuple(found)
