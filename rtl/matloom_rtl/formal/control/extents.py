"""Proof of the check of extents, against the extents of the instruction set, written again here.

Only the positions of fields come from the table that generates the hardware, because two things
generated from one table cannot check each other.
"""

from collections.abc import Mapping

from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Mux, ResetSignal, Signal

from matloom.arch.config import Config
from matloom.arch.csr import Fault
from matloom.arch.isa import FILLS, FORMATS, Destination, Opcode, Source
from matloom.arch.numerics import Rounding
from matloom_rtl.control.bounds import Bounds
from matloom_rtl.control.layouts import field_place, slice_field
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["CYCLES", "bounds", "bounds_proofs"]

#: Maximum cycles of a check of extents, by opcode.
CYCLES = {Opcode.LOAD: 30, Opcode.STORE: 30, Opcode.EXEC: 42, Opcode.POST: 52}

#: Upper limit of fields that are multiplied, exclusive, to keep products tractable for the solver.
#: Fields that are only added are not limited.
_FACTOR_LIMIT = 4

_TOTAL_BITS = 40


class _Fields:
    """Fields of a legal instruction, by name; `assumed` collects the assumptions about them."""

    def __init__(self, word, opcode: Opcode, config: Config):
        self._there = {item.name: item for item in FORMATS[opcode].fields}
        self._word, self._opcode, self._config = word, opcode, config
        self.config, self.assumed = config, []

    def __call__(self, name: str):
        """Return a field; 0 if the configuration does not have it."""
        item = self._there[name]
        if not item.exists(self._config):
            return Const(0)
        whole = slice_field(self._word, self._opcode, name)
        value = slice_field(self._word, self._opcode, name, self._config)
        self.assumed.append(whole == value)
        return value

    def count(self, name: str):
        """Return a field that is a factor, assumed to be at least 1 and below `_FACTOR_LIMIT`."""
        value = self(name)
        self.assumed += [value != 0, value < _FACTOR_LIMIT]
        return value

    def step(self, name: str):
        """Return a field that is a factor, assumed to be below `_FACTOR_LIMIT`."""
        value = self(name)
        self.assumed.append(value < _FACTOR_LIMIT)
        return value


def _transfer(fields: _Fields, loads: bool) -> list:
    """Return, for each memory range of a LOAD or STORE, whether it counts, its fault, its end."""
    rows, planes, size = fields.count("rows") - 1, fields.count("planes") - 1, fields("row_bytes")
    fields.assumed.append(size != 0)
    if not loads:
        fields.assumed += [fields("fill") == 0, fields("spread") == 0]

    def box(side, first, last):
        """Return the end of a transfer's bytes, whose first row ends `last` bytes after `first`."""
        first = first + rows * fields.step(f"{side}_row_step")
        return first + planes * fields.step(f"{side}_plane_step") + last

    spread = fields("spread") if loads else Const(0)
    fill = fields("fill") if loads else Const(0)
    apart = Mux(spread == 0, size, ((size - 1) << spread) + 1)
    return [
        (1, Fault.SPAD_RANGE, box("spad", fields("spad_addr"), apart)),
        (fill == 0, Fault.DRAM_RANGE, box("dram", fields("dram_offset"), size)),
    ]


def _exec(fields: _Fields) -> list:
    """Return, for each memory range of an EXEC, whether it counts, its fault, and its end."""
    config = fields.config
    blocks = fields.count("oc_blocks")
    tiles = (
        blocks * fields.count("kernel_rows") * fields.count("kernel_cols") * fields.count("blocks")
    )
    dense = blocks * fields.count("height") * fields.count("width")
    sliding = blocks * fields.step("out_height") * fields.step("out_width")
    window, mode = fields("window"), fields("mode")
    narrow = (mode == 1) | (mode == 2)
    fields.assumed += [
        Cat(mode == number for number in config.mode_numbers).any(),
        ~(window & mode.any()),
    ]
    entries = Mux(window, sliding, dense + Mux(narrow, config.pair_distance, 0))
    pitch = (fields.count("input_rows") - 1) * fields.step("input_pitch")
    weights = Mux(fields("weights_fixed"), 1, tiles) * config.tile_bytes
    return [
        (1, Fault.SPAD_RANGE, fields("input_addr") + pitch + fields("input_row_bytes")),
        (1, Fault.SPAD_RANGE, fields("weight_addr") + weights),
        (1, Fault.ACC_RANGE, fields("acc_addr") + entries),
    ]


def _post(fields: _Fields) -> list:
    """Return, for each memory range of a POST, whether it counts, its fault, and its end."""
    config = fields.config
    blocks, height, width = (fields.count(name) for name in ("oc_blocks", "height", "width"))
    source, destination, rounding = (fields(name) for name in ("source", "destination", "rounding"))
    table, product, pairs = (fields(name) for name in ("table", "product", "pairs"))
    addend, pool = fields("addend"), fields("pool").any()
    floats = (rounding == Rounding.FLOAT.value) if config.has_float else Const(0)
    fields.assumed += [
        Cat(rounding == each.value for each in config.roundings).any(),
        *(
            destination <= 2,
            table <= config.table_uses[-1],
            ~(floats & fields("words").any()),
            Cat(addend == value for value in config.addends).any(),
        ),
        ~(product.any() & addend.any()),
        ~pool | ~Cat(source, destination, pairs, floats, fields("words")).any(),
    ]
    size = Mux(fields("words"), 1, 0)
    if config.has_float:
        form = fields("pre_shift")
        fields.assumed.append(~floats | Cat(form == each for each in config.post_formats).any())
        size = Mux(floats, Mux(form == 8, 2, Mux(form < 6, 1, 0)), size)

    def bytes_of(side):
        """Return the end of the bytes of an operand; `side` is the prefix of its fields."""
        last = fields(f"{side}_addr") + (height - 1) * fields.step(f"{side}_pitch")
        last = last + (width - 1) * fields.step("x_step")
        return last + ((blocks - 1) * config.columns << size) + (fields("tail") << size)

    filled = Cat(table == use.value for use in FILLS).any()
    places = blocks * height * width << Mux(pool, 2, 0)
    paired = ((blocks >> 1) + blocks[0]) * height * width + config.pair_distance
    entries = fields("acc_addr") + Mux(pairs, paired, places)
    reads_bytes = source == Source.SPAD.value
    writes_bytes = destination == Destination.SPAD.value
    parameters = blocks * (
        fields("channel_bias") * config.bias_block_bytes
        + fields("channel_scale") * config.scale_block_bytes
    )
    return [
        (reads_bytes, Fault.SPAD_RANGE, bytes_of("source")),
        (writes_bytes & ~filled, Fault.SPAD_RANGE, bytes_of("dest")),
        (~reads_bytes | product.any() | addend.any() | ~writes_bytes, Fault.ACC_RANGE, entries),
        (1, Fault.SPAD_RANGE, fields("param_addr") + parameters),
    ]


_EXTENTS = {
    Opcode.LOAD: lambda fields: _transfer(fields, True),
    Opcode.STORE: lambda fields: _transfer(fields, False),
    Opcode.EXEC: _exec,
    Opcode.POST: _post,
}


def _with_fixed_fields(word, opcode: Opcode, values: Mapping[str, int]):
    """Return the word of an instruction with the fields in `values` replaced by constants."""
    for name, value in values.items():
        first, beyond = field_place(opcode, name)
        word = Cat(word[:first], Const(value, beyond - first), word[beyond:])
    return word


def bounds(opcode: Opcode, unit: Bounds, values: Mapping[str, int] | None = None) -> Claim:
    """Claim that a check ends in time and finds the first extent that exceeds its memory.

    There is one check, which starts with the run. The instruction is any legal one with small
    factors, whose fields in `values` have these values.
    """
    m = Module()
    m.submodules.unit = unit
    config = unit._config
    held = Signal()
    word = Signal.like(unit.word)
    kept = Signal.like(unit.word)
    size = Signal(32)
    kept_size = Signal(32)
    # Drawn in the first cycle, and kept.
    m.d.comb += [
        *(
            unit.word.eq(_with_fixed_fields(Mux(held, kept, word), opcode, values or {})),
            unit.start.eq(~held),
        ),
        unit.region_bytes.eq(Mux(held, kept_size, size)),
    ]
    m.d.sync += [kept.eq(unit.word), kept_size.eq(unit.region_bytes), held.eq(1)]
    fields = _Fields(unit.word, opcode, config)
    capacity = {
        Fault.SPAD_RANGE: config.spad_bytes,
        Fault.ACC_RANGE: config.acc_entries,
        Fault.DRAM_RANGE: unit.region_bytes,
    }
    cause, address = Const(0, 4), Const(0, 32)
    for applies, fault, end in reversed(_EXTENTS[opcode](fields)):
        total = Signal(_TOTAL_BITS)
        m.d.comb += total.eq(end)
        beyond = applies & (total > capacity[fault])
        cause = Mux(beyond, fault.value, cause)
        address = Mux(beyond, total[:32], address)
    cycles = Signal(range(CYCLES[opcode] + 2))
    over = Signal()
    m.d.sync += [cycles.eq(cycles + ~over), over.eq(over | unit.done)]
    m.d.comb += [
        unit.opcode.eq(opcode.value),
        Assume(~ResetSignal()),
        *(Assume(held | each) for each in fields.assumed),
        implies(unit.done & ~over, (unit.fault == cause) & (unit.address == address)),
        Assert(over | (cycles <= CYCLES[opcode])),
        Cover(unit.done & (unit.fault == Fault.SPAD_RANGE.value)),
    ]
    return Claim(module=m, ports=(word, size))


def _cases(opcode: Opcode, config: Config) -> dict[str, dict[str, int]]:
    """Return the cases of an opcode to prove separately: by name, the values of fixed fields.

    Together they cover all instructions. A single claim about POST with addends would take the
    solver too long.
    """
    if opcode is not Opcode.POST or not config.has_addends:
        return {opcode.name: {}}
    return {
        f"{opcode.name}, {source.name} to {destination.name}": {
            "source": source.value,
            "destination": destination.value,
        }
        for source in Source
        for destination in Destination
    }


def bounds_proofs(units: list) -> list[Proof]:
    """Return the proofs of the check of extents of a chip, one or more for each opcode."""
    return [
        Proof(
            kind="bounds",
            unit=f"Bounds, {name}",
            statement="the first extent of the instruction set that exceeds its memory is found, "
            "with its end, in time; for factors below 4, and any values that are only added",
            build=lambda unit=unit, opcode=opcode, values=values: bounds(
                opcode, Bounds(unit._config), values
            ),
            depth=CYCLES[opcode] + 2,
            cover_depth=CYCLES[opcode] + 2,
            bounded=True,
            quick=opcode is not Opcode.POST,
        )
        for unit in units
        if isinstance(unit, Bounds)
        for opcode in _EXTENTS
        for name, values in _cases(opcode, unit._config).items()
    ]
