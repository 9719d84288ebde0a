"""Proof of the verdict on an instruction's fields: exactly the rules of the instruction set."""

from amaranth.hdl import Cat, Cover, Module, Mux, Signal

from matloom.arch.config import Config
from matloom.arch.isa import (
    BLOCK_STEPS,
    BYTES_ONLY,
    FORMATS,
    REQUIRED_WITH_CURVE,
    REQUIRED_WITH_POOL,
    REQUIRED_WITH_RESULT,
    REQUIRED_WITH_ROWS,
    REQUIRED_WITH_SOFTMAX,
    WRITABLE_REGIONS,
    Addend,
    Field,
    Opcode,
    RowFunction,
    byte_only_fields,
)
from matloom.arch.numerics import Rounding
from matloom_rtl.control.layouts import GRANULE_BITS, slice_field
from matloom_rtl.control.legality import Legality
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["Shown", "legality", "legality_proofs"]


class Shown:
    """Time for which the current instruction has been shown to `Legality`.

    Members
    -------
    same:
        Whether the same instruction was shown in the previous cycle.
    held:
        Number of consecutive earlier cycles in which it was shown, saturating at 2. At 2, the
        verdict is that on this instruction.
    """

    def __init__(self, m: Module, unit: Legality):
        word = Cat(unit.word, unit.opcode)
        before = Signal.like(word, name="word_before")
        shown = Signal(name="shown_before")
        held_before = Signal(2)
        self.same = Signal()
        self.held = Signal(2)
        m.d.comb += [
            self.same.eq(shown & (word == before)),
            self.held.eq(Mux(self.same, held_before + (held_before != 2), 0)),
        ]
        m.d.sync += [shown.eq(1), before.eq(word), held_before.eq(self.held)]


class _Fields:
    """Fields of the instruction shown to `Legality`, by name."""

    def __init__(self, unit: Legality, opcode: Opcode):
        self._word, self._opcode = unit.word, opcode

    def __getitem__(self, name: str):
        return slice_field(self._word, self._opcode, name)

    def zero(self, *names: str):
        """Return whether the fields `names` are all 0."""
        return ~Cat(self[name].any() for name in names).any()


def legality(unit: Legality) -> Claim:
    """Claim that the verdict on an instruction shown for three cycles follows the rules, and stays.

    The rules are those of `matloom.arch.instruction.illegal_field`, and that reserved bits are 0.
    """
    m = Module()
    m.submodules.unit = unit
    now = Shown(m, unit)
    verdict = Cat(unit.illegal_field, unit.read_only)
    before = Signal.like(verdict, name="verdict_before")
    settled = now.held == 2
    settled_before = Signal()
    m.d.sync += [before.eq(verdict), settled_before.eq(settled)]
    m.d.comb += implies(settled & settled_before, verdict == before)
    for opcode in FORMATS:
        shown = settled & (unit.opcode == opcode)
        legal = Signal(name=f"legal_{opcode.name.lower()}")
        m.d.comb += [
            legal.eq(Cat(_rules(unit, opcode, unit._config)).all()),
            implies(shown, unit.illegal_field == ~legal),
            Cover(shown & legal),
            Cover(shown & ~legal),
        ]
    region = _Fields(unit, Opcode.STORE)["region"]
    writable = Cat(region == each for each in WRITABLE_REGIONS).any()
    stores = unit.opcode == Opcode.STORE
    m.d.comb += [
        implies(settled, unit.read_only == (stores & ~writable)),
    ]
    return Claim(module=m, ports=(unit.word, unit.opcode))


def _rules(unit: Legality, opcode: Opcode, config: Config) -> list:
    """Return a list of conditions, one per rule: the instruction obeys the rule."""
    fields, layout = _Fields(unit, opcode), FORMATS[opcode]
    end = layout.instruction_words * GRANULE_BITS
    rules = [~unit.word[layout.used_bits : end].any()]
    mode = fields["mode"] if opcode is Opcode.EXEC else None
    for item in layout.all_fields[1:]:
        rules += _field_rules(item, fields[item.name], mode, config)
    if opcode is Opcode.EXEC:
        aligned = Cat(fields[name] % config.weight_boundary == 0 for name in BLOCK_STEPS).all()
        paired = fields["window"].any() & fields["paired"].any()
        rules.append(~paired | (aligned & (fields["blocks"] == 1)))
    if opcode is Opcode.POST:
        rules += _post_rules(fields, config)
    return rules


def _field_rules(item: Field, value, mode, config: Config) -> list:
    """Return a list of conditions that the value of one field must meet, taken by itself.

    `mode` is the EXEC's number format, which must be the first for a field that is `plain`.
    """
    (low, high), choices = item.limits(config), item.allowed_values(config)
    rules = [value >= low, value <= high]
    if choices is not None:
        rules.append(Cat(value == choice for choice in choices).any())
    if item.exists(config):
        rules.append(value[: item.unit(config).bit_length() - 1] == 0)
    if item.plain:
        rules.append(~mode.any() | ~value.any())
    return rules


def _post_rules(fields: _Fields, config: Config) -> list:
    """Return a list of conditions on the fields of a POST that involve several fields."""
    floats = fields["rounding"] == Rounding.FLOAT
    known = Cat(fields["pre_shift"] == number for number in config.post_formats).any()
    softmax = fields["softmax"]
    rules = [
        ~floats | (known & fields.zero("words", "curve", *BYTES_ONLY)),
        ~fields["words"].any() | fields.zero(*byte_only_fields(config)),
        fields.zero("product") | fields.zero("addend"),
    ]
    for used, fixed in (
        (fields["curve"].any(), REQUIRED_WITH_CURVE),
        (softmax.any(), REQUIRED_WITH_SOFTMAX),
        (softmax == RowFunction.SOFTMAX, REQUIRED_WITH_ROWS),
        (fields["pool"].any(), REQUIRED_WITH_POOL),
        (fields["addend"] == Addend.RESULT, REQUIRED_WITH_RESULT),
    ):
        rules += [~used | (fields[name] == value) for name, value in fixed.items()]
    return rules


def legality_proofs(units: list) -> list[Proof]:
    """Return the proof for the check of fields among a chip's units."""
    return [
        Proof(
            kind="bounds",
            unit="Legality",
            statement="an instruction shown for three cycles is refused if and only if it breaks a "
            "rule of the instruction set for its fields and reserved bits, or is a STORE to a "
            "region that is only read; the verdict stays as long as the instruction",
            build=lambda unit=unit: legality(unit),
            depth=3,
            cover_depth=5,
        )
        for unit in units
        if isinstance(unit, Legality)
    ]
