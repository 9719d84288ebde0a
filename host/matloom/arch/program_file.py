"""Layout of a Program file: header, sections, records, fields, operators and attributes.

Reader, writer and reference page derive from the tables here; a loader in C is meant to.
"""

import enum
from dataclasses import dataclass

from matloom.arch.config import ADDED_FIELDS
from matloom.arch.isa import Region
from matloom.arch.modes import MAC_MODES

#: First bytes of a file.
MAGIC = b"MLOOMPRG"
#: Incremented by changes that readers of the previous version would misread.
FORMAT_VERSION = 5
#: Alignment of tensors in regions, of constants in the image, and of the image in the file.
ALIGNMENT = 64
#: Alignment of the host's constants: enough for any element, and for vectors of small processors.
CONSTANT_ALIGNMENT = 16
#: Flag of a section that a reader must not skip.
REQUIRED = 1

#: Maximum bytes of a file, of all regions together, of a tensor, and of all tensors of the host
#: together, so that a loader and a run never allocate more than 4 GB.
FILE_LIMIT = 1 << 27
REGION_LIMIT = 1 << 27
TENSOR_LIMIT = 1 << 30
TENSORS_LIMIT = 1 << 31

_U32, _I32 = (1 << 32) - 1, (1 << 31) - 1
#: Element types; the index of each is its number in files.
DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "complex64"),
)
STEP_KINDS = ("engine", "host")
#: Places where a layer can run; `none` if it costs nothing.
PLACES = ("none", "engine", "host")
#: How thoroughly a program was compared with the operators' definitions.
CHECKS = ("none", "sample", "full")


@dataclass(frozen=True, kw_only=True)
class RecordField:
    """One field of a record in a program file.

    Members
    -------
    type:
        ``u32``, ``i32``, ``u64`` or ``f64``, little-endian; ``text``, the index of an entry of
        `texts`; ``range``, the index of a first record and a number of records, each ``u32``.
    low, high:
        Smallest and largest value, or number of records of a range; None for no limit.
    choices:
        Names of the values from 0 up.
    of:
        Section in which a range lies; None if another field determines the section.
    """

    name: str
    type: str
    doc: str
    low: int | float | None = None
    high: int | float | None = None
    choices: tuple[str, ...] = ()
    of: str | None = None

    @property
    def bytes(self) -> int:
        """Size of the field in bytes."""
        return 8 if self.type in ("u64", "f64", "range") else 4

    @property
    def words(self) -> tuple[tuple[str, str], ...]:
        """Name and type of each word of the field: two words for a range, otherwise one."""
        if self.type == "range":
            return ((f"{self.name}_first", "u32"), (f"{self.name}_count", "u32"))
        return ((self.name, "u32" if self.type == "text" else self.type),)


def _u32(
    name: str, doc: str, low: int = 0, high: int = _U32, **more: tuple[str, ...]
) -> RecordField:
    """Return a field of an unsigned 32-bit number; `choices` name the values, if given."""
    choices = more.get("choices", ())
    last = len(choices) - 1 if choices else high
    return RecordField(name=name, type="u32", doc=doc, low=low, high=last, choices=choices)


def _i32(name: str, doc: str, low: int = -_I32 - 1, high: int = _I32) -> RecordField:
    """Return a field of a signed 32-bit number."""
    return RecordField(name=name, type="i32", doc=doc, low=low, high=high)


def _u64(name: str, doc: str) -> RecordField:
    """Return a field of an unsigned number below 2**63."""
    return RecordField(name=name, type="u64", doc=doc, low=0, high=(1 << 63) - 1)


def _f64(name: str, doc: str, low: float, high: float) -> RecordField:
    """Return a field of a 64-bit float."""
    return RecordField(name=name, type="f64", doc=doc, low=low, high=high)


def _text(name: str, doc: str) -> RecordField:
    """Return a field of a text, an index into section ``texts``."""
    return RecordField(name=name, type="text", doc=doc)


def _range(name: str, doc: str, of: str | None, most: int = _U32) -> RecordField:
    """Return a field of a range of records in section `of`: index of the first, and count."""
    return RecordField(name=name, type="range", doc=doc, low=0, high=most, of=of)


_RESERVED_WORD = _u32("reserved", "0", high=0)
_MOST_AXES = 16


@dataclass(frozen=True, kw_only=True)
class Section:
    """One section of a program file: a table of records, or plain bytes if it has no `fields`.

    Members
    -------
    least, most:
        Limits on the number of records, or of bytes.
    optional:
        Whether a file may omit the section.
    ignorable:
        Whether a reader that does not know the section may skip it.
    """

    tag: int
    name: str
    doc: str
    fields: tuple[RecordField, ...] = ()
    least: int = 0
    most: int = FILE_LIMIT
    alignment: int = 8
    optional: bool = False
    ignorable: bool = False

    @property
    def record_bytes(self) -> int:
        """Size of a record in bytes; 1 if the section is plain bytes."""
        return sum(field.bytes for field in self.fields) or 1


#: Fields of the header of every file. The checksum is the CRC-32 of all bytes after it.
HEADER = (
    RecordField(name="magic", type="u64", doc="the letters `MLOOMPRG`"),
    _u32("format", "version of this layout", FORMAT_VERSION, FORMAT_VERSION),
    _u32("checksum", "CRC-32 (IEEE 802.3) of all that follows this field"),
    _u32("total_bytes", "size of the file", high=FILE_LIMIT),
    _u32("interface", "version of instructions and registers"),
    _u32("digest", "of the configuration, as in register DIGEST"),
    _u32("sections", "entries of the directory, which follows", high=256),
)

#: Fields of an entry of the directory.
DIRECTORY = (
    _u32("tag", "what the section holds; ascending, each once", 1),
    _u32("flags", "1: a reader that does not know the tag must refuse the file", high=REQUIRED),
    _u32("offset", "from the beginning of the file"),
    _u32("bytes", "size without padding"),
    _u32("count", "number of records"),
    _u32("record_bytes", "size of a record; 1 for sections that are bytes", 1),
)

_VALUE = (
    _u32("key", "which attribute"),
    _u32("kind", "how its values are kept, see kinds", high=6),
    _range("values", "in `integers`, `floats` or `texts`, as the kind says", None),
)

SECTIONS = (
    Section(
        tag=1,
        name="network",
        doc="The network as a whole.",
        least=1,
        most=1,
        fields=(
            _text("name", "of the network"),
            _range("inputs", "numbers of its input tensors", "integers"),
            _range("outputs", "numbers of its output tensors", "integers"),
            *(
                _u32(f"{region.name.lower()}_bytes", f"size of region {region.name}")
                for region in Region
            ),
            _RESERVED_WORD,
        ),
    ),
    Section(tag=2, name="configuration", doc="Fields of the configuration.", fields=_VALUE),
    Section(
        tag=3,
        name="strings",
        doc="Bytes of all texts, in UTF-8, each with a zero byte at its end.",
    ),
    Section(
        tag=4,
        name="texts",
        doc="Texts; each begins where the one before ended.",
        fields=(
            _u32("offset", "in `strings`"),
            _u32("bytes", "without the zero byte"),
        ),
    ),
    Section(
        tag=5,
        name="integers",
        doc="Values of lists of integers, one list after the other.",
        fields=(_i32("value", "an integer"),),
    ),
    Section(
        tag=6,
        name="floats",
        doc="Values of lists of floating-point numbers.",
        fields=(RecordField(name="value", type="f64", doc="a number"),),
    ),
    Section(
        tag=7,
        name="tensors",
        doc="Inputs and outputs of the network and of its steps.",
        fields=(
            _text("name", "unique among tensors"),
            _u32("dtype", "type of its elements", choices=DTYPES),
            _range("shape", "lengths of its axes", "integers", _MOST_AXES),
            _f64("scale", "of its integers, if `quantised`", 0.0, 3.5e38),
            _i32("zero_point", "of its integers, if `quantised`", -(1 << 16), 1 << 16),
            _u32("quantised", "1: it has one scale and zero point", high=1),
        ),
    ),
    Section(
        tag=8,
        name="constants",
        doc="Constants that host steps read in addition to tensors.",
        fields=(
            _text("name", "unique among constants"),
            _u32("dtype", "type of its elements", choices=DTYPES),
            _range("shape", "lengths of its axes", "integers", _MOST_AXES),
            _range("scales", "of its integers, by channel or one", "floats"),
            _range("zero_points", "as many", "integers"),
            _u32("offset", f"in `host_data`, a multiple of {CONSTANT_ALIGNMENT}"),
            _i32("axis", "of the channels; -1 if one scale applies to all", -1, _MOST_AXES),
        ),
    ),
    Section(
        tag=9,
        name="bindings",
        doc="Places of tensors in regions of external memory.",
        fields=(
            _u32("tensor", "its number"),
            _u32("region", "of external memory", choices=tuple(item.name for item in Region)),
            _u32("offset", f"in the region, a multiple of {ALIGNMENT}"),
            _RESERVED_WORD,
        ),
    ),
    Section(
        tag=10,
        name="steps",
        doc="The order of execution.",
        fields=(
            _u32("kind", "where it runs", choices=STEP_KINDS),
            _u32("index", "the next record of `engine_steps` or `host_steps`"),
        ),
    ),
    Section(
        tag=11,
        name="engine_steps",
        doc="Write inputs, run commands, read outputs.",
        fields=(
            _u32("command_offset", "in the image, a multiple of 16"),
            _u32("command_bytes", "a multiple of 16", 16),
            _range("inputs", "bindings to write before", "bindings"),
            _range("outputs", "bindings to read after", "bindings"),
            _u64("predicted_cycles", "from doorbell to done"),
            _range("repeat", "the repetition, if there is one", "repeats", 1),
        ),
    ),
    Section(
        tag=12,
        name="repeats",
        doc="Commands for a step whose weights are still in the scratchpad.",
        fields=(
            _u32("command_offset", "in the image, a multiple of 16"),
            _u32("command_bytes", "a multiple of 16", 16),
            _u64("predicted_cycles", "from doorbell to done"),
            _range("kept", "bytes that must still be there", "spans"),
        ),
    ),
    Section(
        tag=13,
        name="spans",
        doc="Bytes of the scratchpad, ascending and apart within a repetition.",
        fields=(
            _u32("start", "the first byte"),
            _u32("end", "the first byte after them"),
        ),
    ),
    Section(
        tag=14,
        name="host_steps",
        doc="Operators that run on the host.",
        fields=(
            _u32("operator", "its number, see operators"),
            _text("reason", "why the engine does not run it"),
            _range("inputs", "tensors by number; constant n is -1 - n", "integers"),
            _range("outputs", "tensors by number", "integers"),
            _range("attributes", "what its kernel needs in addition to tensors", "attributes"),
        ),
    ),
    Section(
        tag=15,
        name="attributes",
        doc="Attributes of steps of the host, in the order of their operator's list.",
        fields=_VALUE,
    ),
    Section(
        tag=16,
        name="layers",
        doc="Operators of the network, for reports.",
        fields=(
            _text("name", "of its first output"),
            _text("operator", "its name"),
            _u32("where", "it runs", choices=PLACES),
            _u32("timestamp", "slot in the completion-time table; 0 for none"),
            _u64("macs", "multiply-accumulates"),
            _u64("predicted_cycles", "of a first call"),
            _u64("repeat_cycles", "of later calls"),
            _u64("tensor_bytes", "of all that it reads and writes"),
            _text("reason", "why it does not run on the engine"),
            _text("mode", "formats of its products, joined by a comma and a space"),
        ),
    ),
    Section(
        tag=17,
        name="verdict",
        doc="Result of the check at compile time.",
        optional=True,
        ignorable=True,
        least=1,
        most=1,
        fields=(
            _u32("mode", "of the runs against the operators' definitions", choices=CHECKS),
            _u32("calls", "runs"),
            _u64("seed", "of their inputs"),
            _f64("share", "of multiply-accumulates whose results were compared", 0.0, 1.0),
            _u32("proven", "stages that were proven instruction by instruction"),
            _u32("stages", "stages on the engine"),
            _text("fallback", "why a simpler schedule was used"),
            _u32("tiles", "single tiles that were run apart from those runs"),
        ),
    ),
    Section(
        tag=18,
        name="image",
        doc="Contents of region PROGRAM: constants and command buffers.",
        alignment=ALIGNMENT,
    ),
    Section(
        tag=19,
        name="host_data",
        doc="Constants of the host; model files that reference interpreters run.",
        alignment=ALIGNMENT,
    ),
    Section(
        tag=20,
        name="memory",
        doc="The memory that cycles are predicted for; by default, the reference memory.",
        optional=True,
        ignorable=True,
        least=1,
        most=1,
        fields=(
            _u32("bytes_numerator", "of the bytes per cycle", 1, 1 << 13),
            _u32("bytes_denominator", "of the bytes per cycle", 1, 1 << 8),
            _u32("read_latency", "cycles from an address to its first beat", 1, 1 << 12),
            _u32("write_latency", "cycles from a last beat to its response", 1, 1 << 12),
            _u32("outstanding", "bursts on their way, each direction", 1, 64),
            _u32("row_bytes", "a power of two; 0 if rows do not matter", high=1 << 16),
            _u32("row_miss_cycles", "more for a beat in another row", high=1 << 12),
            _RESERVED_WORD,
        ),
    ),
    Section(
        tag=21,
        name="variables",
        doc="Tensors whose bytes stay from call to call: a call begins with those of the last.",
        optional=True,
        least=1,
        fields=(
            _text("name", "unique among variables"),
            _u32("before", "number of the tensor as a call begins"),
            _u32("after", "number of the tensor as it ends"),
            _u32("initial", f"its first bytes in `host_data`, a multiple of {CONSTANT_ALIGNMENT}"),
            _range("place", "in region ARENA; none if the host keeps it", "bindings", 1),
        ),
    ),
    Section(
        tag=22,
        name="ends",
        doc="Names of inputs and outputs in the model file, where another tensor has them, too.",
        optional=True,
        ignorable=True,
        least=1,
        fields=(
            _u32("tensor", "its number"),
            _text("name", "what users see instead of the tensor's"),
        ),
    ),
    Section(
        tag=23,
        name="preprocessing",
        doc="Preprocessing that turns raw data into inputs.",
        optional=True,
        ignorable=True,
        least=1,
        fields=(
            _u32("tensor", "number of the input"),
            _text("definition", "as JSON, by `matloom.pre.dumps`"),
        ),
    ),
)


class Kind(enum.IntEnum):
    """Encoding of an attribute's values in a program file."""

    NONE = 0
    BOOLEAN = 1
    INTEGER = 2
    FLOAT = 3
    TEXT = 4
    INTEGERS = 5
    TEXTS = 6


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """An attribute of operators, or a field of the configuration.

    Members
    -------
    key:
        Identifier in files.
    name, field:
        Name on the format's page, and in Python if it differs.
    kinds:
        Possible encodings.
    count:
        Number of values of a list; None for any.
    low, high:
        Smallest and largest legal value, also of each item of a list; None for no limit.
    choices:
        Names of the integers from 0 up.
    """

    key: int
    name: str
    doc: str
    kinds: tuple[Kind, ...]
    count: int | None = None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    field: str = ""

    @property
    def python(self) -> str:
        """Name of the attribute in Python."""
        return self.field or self.name


#: Largest stride, window, padding and length.
_MAX_SIZE = 1 << 20
_NUMBER, _LIST = (Kind.INTEGER,), (Kind.INTEGERS,)


def _pair_of_sizes(key: int, name: str, doc: str) -> Attribute:
    """Return an attribute of two sizes, vertical and horizontal."""
    return Attribute(key=key, name=name, doc=doc, kinds=_LIST, count=2, low=1, high=_MAX_SIZE)


ATTRIBUTES = (
    Attribute(
        key=1,
        name="activation",
        doc="limit on the output",
        kinds=_NUMBER,
        choices=("NONE", "RELU", "RELU6", "RELU_N1_TO_1"),
    ),
    Attribute(key=2, name="axis", doc="from 0 on", kinds=_NUMBER, low=0, high=_MOST_AXES),
    _pair_of_sizes(3, "stride", "vertical, horizontal"),
    _pair_of_sizes(4, "dilation", "vertical, horizontal"),
    Attribute(
        key=5,
        name="padding",
        doc="top, bottom, left, right",
        kinds=_LIST,
        count=4,
        low=0,
        high=_MAX_SIZE,
    ),
    Attribute(
        key=6,
        name="mode",
        doc="format of products; none for the compiler's choice",
        kinds=(Kind.NONE, Kind.INTEGER),
        choices=MAC_MODES,
    ),
    Attribute(
        key=7,
        name="depth_multiplier",
        doc="outputs per channel",
        kinds=_NUMBER,
        low=1,
        high=_MAX_SIZE,
    ),
    Attribute(
        key=8, name="keep_num_dims", doc="keep the leading axes apart", kinds=(Kind.BOOLEAN,)
    ),
    Attribute(
        key=9,
        name="alpha",
        doc="factor of negative values",
        kinds=(Kind.FLOAT,),
        low=-_MAX_SIZE,
        high=_MAX_SIZE,
    ),
    Attribute(
        key=10,
        name="before",
        doc="elements before each axis",
        kinds=_LIST,
        low=0,
        high=_MAX_SIZE,
    ),
    Attribute(
        key=11, name="after", doc="elements after each axis", kinds=_LIST, low=0, high=_MAX_SIZE
    ),
    Attribute(
        key=12,
        name="value",
        doc="of padding; none means zero",
        kinds=(Kind.NONE, Kind.INTEGER, Kind.FLOAT),
    ),
    _pair_of_sizes(13, "window", "vertical, horizontal"),
    Attribute(key=14, name="axes", doc="ascending", kinds=_LIST, low=0, high=_MOST_AXES),
    Attribute(
        key=15, name="keep_dims", doc="leave axes with a length of one", kinds=(Kind.BOOLEAN,)
    ),
    Attribute(key=16, name="operators", doc="names, in order", kinds=(Kind.TEXTS,)),
    Attribute(key=17, name="reasons", doc="why no kernel runs them", kinds=(Kind.TEXTS,)),
    Attribute(key=18, name="positions", doc="operators of the model file", kinds=_LIST, low=0),
    Attribute(key=19, name="inputs", doc="tensors of the model file", kinds=_LIST, low=0),
    Attribute(key=20, name="outputs", doc="tensors of the model file", kinds=_LIST, low=0),
    _pair_of_sizes(21, "size", "height and width"),
    Attribute(key=22, name="align_corners", doc="of the two grids", kinds=(Kind.BOOLEAN,)),
    Attribute(key=23, name="half_pixel_centers", doc="of the two grids", kinds=(Kind.BOOLEAN,)),
    Attribute(key=24, name="begin", doc="first element of each axis", kinds=_LIST, low=0),
    Attribute(
        key=25, name="lengths", field="size", doc="elements of each axis", kinds=_LIST, low=1
    ),
    Attribute(key=26, name="step", doc="between elements of each axis", kinds=_LIST),
    Attribute(
        key=27,
        name="dropped",
        doc="axes that disappear",
        kinds=_LIST,
        low=0,
        high=_MOST_AXES,
    ),
    Attribute(
        key=28,
        name="beta",
        doc="factor of the exponent",
        kinds=(Kind.FLOAT,),
        low=-_MAX_SIZE,
        high=_MAX_SIZE,
    ),
    Attribute(key=29, name="sizes", doc="of the parts", kinds=_LIST, low=1),
    Attribute(key=30, name="permutation", doc="of the axes", kinds=_LIST, low=0, high=_MOST_AXES),
    Attribute(key=31, name="interpreters", doc="that may run them, in order", kinds=(Kind.TEXTS,)),
    Attribute(
        key=32,
        name="table",
        doc="results for the bytes from -128 to 127",
        kinds=_LIST,
        count=256,
        low=-128,
        high=127,
    ),
    Attribute(key=33, name="adj_x", doc="transposed first input", kinds=(Kind.BOOLEAN,)),
    Attribute(key=34, name="adj_y", doc="transposed second input", kinds=(Kind.BOOLEAN,)),
    Attribute(
        key=35,
        name="carried",
        doc="values that an iteration leaves to the next",
        kinds=_NUMBER,
        low=0,
    ),
    Attribute(
        key=36, name="conditional", doc="a program decides on each iteration", kinds=(Kind.BOOLEAN,)
    ),
    Attribute(
        key=37,
        name="results",
        doc="places of the outputs, among values carried and stacked",
        kinds=_LIST,
        low=0,
    ),
    Attribute(key=38, name="time", doc="number of a recurrence's step", kinds=_NUMBER, low=0),
    Attribute(
        key=39,
        name="function",
        doc="of one number",
        kinds=_NUMBER,
        choices=("ABS", "ELU", "EXP", "GELU", "GELU_TANH", "LOG", "RSQRT"),
    ),
)


#: Operator of a loop whose number of iterations is known only at run time; its body is a program of
#: its own.
LOOP = "LOOP"


@dataclass(frozen=True, kw_only=True)
class HostOperator:
    """An operator that the host can run: its number, its name, and its attributes in order.

    Number and name are those of TensorFlow Lite, except for Matloom's own operators LOOKUP, LOOP,
    LSTM_CELL and FUNCTION, whose numbers are beyond TensorFlow Lite's.
    """

    number: int
    name: str
    attributes: tuple[str, ...] = ()


_CONVOLUTION = ("stride", "dilation", "padding", "activation", "mode")
_POOLING = ("window", "stride", "padding", "activation")
_REDUCTION = ("axes", "keep_dims")
_REFERENCE = ("operators", "reasons", "positions", "inputs", "outputs", "interpreters")
_SLICE = ("begin", "lengths", "step", "dropped")
_ACTIVATION, _AXIS, _PARTS = ("activation",), ("axis",), ("axis", "sizes")

OPERATORS = tuple(
    HostOperator(number=number, name=name, attributes=attributes)
    for number, name, attributes in (
        (0, "ADD", _ACTIVATION),
        (1, "AVERAGE_POOL_2D", _POOLING),
        (2, "CONCATENATION", _AXIS),
        (3, "CONV_2D", _CONVOLUTION),
        (4, "DEPTHWISE_CONV_2D", (*_CONVOLUTION, "depth_multiplier")),
        (6, "DEQUANTIZE", ()),
        (9, "FULLY_CONNECTED", ("keep_num_dims", "activation", "mode")),
        (14, "LOGISTIC", ()),
        (17, "MAX_POOL_2D", _POOLING),
        (18, "MUL", _ACTIVATION),
        (19, "RELU", ()),
        (21, "RELU6", ()),
        (22, "RESHAPE", ()),
        (25, "SOFTMAX", ("beta",)),
        (28, "TANH", ()),
        (32, "REFERENCE", _REFERENCE),
        (34, "PAD", ("before", "after", "value")),
        (36, "GATHER", _AXIS),
        (39, "TRANSPOSE", ("permutation",)),
        (40, "MEAN", _REDUCTION),
        (41, "SUB", _ACTIVATION),
        (43, "SQUEEZE", ()),
        (45, "STRIDED_SLICE", _SLICE),
        (49, "SPLIT", _PARTS),
        (50, "LOG_SOFTMAX", ()),
        (54, "PRELU", ()),
        (55, "MAXIMUM", ()),
        (56, "ARG_MAX", _AXIS),
        (57, "MINIMUM", ()),
        (60, "PADV2", ("before", "after", "value")),
        (65, "SLICE", _SLICE),
        (67, "TRANSPOSE_CONV", ("stride", "padding", "size", "activation")),
        (70, "EXPAND_DIMS", ()),
        (74, "SUM", _REDUCTION),
        (79, "ARG_MIN", _AXIS),
        (83, "PACK", _AXIS),
        (88, "UNPACK", _AXIS),
        (97, "RESIZE_NEAREST_NEIGHBOR", ("size", "align_corners", "half_pixel_centers")),
        (98, "LEAKY_RELU", ("alpha",)),
        (99, "SQUARED_DIFFERENCE", ()),
        (102, "SPLIT_V", _PARTS),
        (114, "QUANTIZE", ()),
        (117, "HARD_SWISH", ()),
        (126, "BATCH_MATMUL", ("adj_x", "adj_y")),
        (1000, "LOOKUP", ("table",)),
        (1001, LOOP, ("carried", "conditional", "results")),
        (1002, "LSTM_CELL", ("time", "axis")),
        (1003, "FUNCTION", ("function",)),
    )
)

#: Integer fields of the configuration, in the order of their keys.
_NUMBERS = (
    *(
        "rows",
        "columns",
        "broadcast_group",
        "float_rows",
        "weight_rows",
        "spad_bytes",
        "spad_banks",
    ),
    *("acc_bytes", "lanes", "tables", "products", "bus_bits", "outstanding", "burst_beats"),
    *("queue_depth", "timestamps", "address_first", "counters"),
    *("windows", "paired_windows", "maximum", "checks"),
    *("time_limit", "parity", "element_stride", "softmax", "zero_points", "pooling"),
    *("channel_tables", "curves", "transposed_weights", "result_sums"),
)
CONFIGURATION = (
    Attribute(
        key=1, name="mac_modes", doc="number formats, in order", kinds=_LIST, choices=MAC_MODES
    ),
    *(
        Attribute(key=key, name=name, doc="as in the configuration", kinds=_NUMBER)
        for key, name in enumerate(_NUMBERS, 2)
    ),
)

#: Number of leading fields of the configuration that every file has. Trailing fields that have
#: their value in `ADDED_FIELDS` are omitted.
CONFIGURATION_FIELDS = len(CONFIGURATION) - len(ADDED_FIELDS)
