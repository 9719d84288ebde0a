"""Combinational checks of the field ranges of the instruction set."""

from dataclasses import replace

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

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
    fields_of,
)
from matloom.arch.numerics import Rounding
from matloom_rtl.control.layouts import GRANULE_BITS, LONGEST, reserved_bits, slice_field

__all__ = ["Legality"]

#: Number of faults combined in one register, and of reserved bits combined into one fault.
_FAULTS, _BITS = 2, 16


class Legality(wiring.Component):
    """Check the fields of an instruction. Latency: two cycles.

    Members
    -------
    word, opcode: in
        The instruction; stable until the verdict.
    illegal_field: out
        A reserved bit is set, or a field has an illegal value.
    read_only: out
        The instruction is a STORE to a read-only region.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "word": In(LONGEST * GRANULE_BITS),
                "opcode": In(4),
                "illegal_field": Out(1),
                "read_only": Out(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: the checks of each opcode's fields, in two pipeline stages."""
        m = Module()
        found = {opcode: self._register_faults(m, opcode) for opcode in FORMATS}
        with m.Switch(self.opcode):
            for opcode, faults in found.items():
                with m.Case(opcode):
                    m.d.sync += self.illegal_field.eq(faults.any())
        region = slice_field(self.word, Opcode.STORE, "region")
        writable = Cat(region == allowed for allowed in WRITABLE_REGIONS).any()
        m.d.sync += self.read_only.eq((self.opcode == Opcode.STORE) & ~writable)
        return m

    def _register_faults(self, m: Module, opcode: Opcode) -> Signal:
        """Return a register with the illegal fields of an opcode, one bit for `_FAULTS` conditions.

        The register shortens paths, because the bits of an instruction are far apart.
        """
        faults = self._faults(opcode)
        groups = [faults[first : first + _FAULTS] for first in range(0, len(faults), _FAULTS)]
        found = Signal(len(groups), name=f"faults_{opcode.name.lower()}")
        m.d.sync += found.eq(Cat(Cat(group).any() for group in groups))
        return found

    def _faults(self, opcode: Opcode) -> list[Value]:
        """Return flags, each set if an instruction of the opcode breaks a certain rule."""
        reserved = reserved_bits(self.word, opcode, self._config)
        faults = [reserved[at : at + _BITS].any() for at in range(0, len(reserved), _BITS)]
        for item in FORMATS[opcode].all_fields:
            if item.name != "opcode" and item.exists(self._config):
                faults += self._field_faults(item, slice_field(self.word, opcode, item.name))
        if opcode is Opcode.EXEC and self._config.has_paired_windows:
            faults += self._blocks_faults(opcode)
        if opcode is Opcode.POST and self._config.has_float:
            rule, form = (
                slice_field(self.word, opcode, name) for name in ("rounding", "pre_shift")
            )
            known = Cat(form == number for number in self._config.post_formats).any()
            others = self._nonzero_fields(opcode, BYTES_ONLY)
            faults.append((rule == Rounding.FLOAT) & Cat(~known, *others).any())
        if opcode is Opcode.POST and self._config.has_addends:
            both = (slice_field(self.word, opcode, name) for name in ("product", "addend"))
            faults.append(Cat(each.any() for each in both).all())
        if opcode is Opcode.POST and self._config.has_words:
            faults.append(self._words_fault(opcode))
        if opcode is Opcode.POST and self._config.softmax:
            faults += self._softmax_faults(opcode)
        if opcode is Opcode.POST and self._config.has_curves:
            curve = slice_field(self.word, opcode, "curve").any()
            faults += self._fixed_faults(opcode, curve, REQUIRED_WITH_CURVE)
        if opcode is Opcode.POST and self._config.pooling:
            pool = slice_field(self.word, opcode, "pool").any()
            faults += self._fixed_faults(opcode, pool, REQUIRED_WITH_POOL)
        if opcode is Opcode.POST and self._config.has_result_sums:
            sums = slice_field(self.word, opcode, "addend") == Addend.RESULT
            faults += self._fixed_faults(opcode, sums, REQUIRED_WITH_RESULT)
        return faults

    def _blocks_faults(self, opcode: Opcode) -> list[Value]:
        """Return, for each field that must suit the blocks of a paired window, whether it does not.

        Steps must be multiples of `weight_boundary`, and ``blocks`` must be 1.
        """
        paired = Cat(slice_field(self.word, opcode, name) for name in ("window", "paired")).all()
        bits = (self._config.weight_boundary - 1).bit_length()
        steps = [slice_field(self.word, opcode, name)[:bits].any() for name in BLOCK_STEPS]
        return [paired & each for each in (*steps, slice_field(self.word, opcode, "blocks") != 1)]

    def _words_fault(self, opcode: Opcode) -> Value:
        """Return whether a POST of words uses byte-only features, or floating point."""
        words = slice_field(self.word, opcode, "words")
        floats = slice_field(self.word, opcode, "rounding") == Rounding.FLOAT
        others = self._nonzero_fields(opcode, byte_only_fields(self._config))
        return words.any() & Cat(floats, *others).any()

    def _softmax_faults(self, opcode: Opcode) -> list[Value]:
        """Return, for each field whose value is fixed by SOFTMAX, whether it has another value."""
        softmax = slice_field(self.word, opcode, "softmax")
        makes_rows = softmax == RowFunction.SOFTMAX
        return [
            *self._fixed_faults(opcode, softmax.any(), REQUIRED_WITH_SOFTMAX),
            *self._fixed_faults(opcode, makes_rows, REQUIRED_WITH_ROWS),
        ]

    def _fixed_faults(self, opcode: Opcode, used, rule: dict[str, int]) -> list[Value]:
        """Return, for each field that a feature fixes, whether `used` is set and the field differs.

        `rule` maps names of fields to the values they must have while the feature is `used`. Fields
        that the configuration does not have are left out.
        """
        names = {item.name for item in fields_of(opcode, self._config)}
        return [
            used & (slice_field(self.word, opcode, name) != value)
            for name, value in rule.items()
            if name in names
        ]

    def _nonzero_fields(self, opcode: Opcode, names: tuple[str, ...]) -> list[Value]:
        """Return, for each of the named fields that exists, whether it is not zero."""
        return [
            slice_field(self.word, opcode, item.name).any()
            for item in fields_of(opcode, self._config)
            if item.name in names
        ]

    def _field_faults(self, field: Field, value: Value) -> list[Value]:
        """Return flags, each set if the field's value breaks a rule: limits, multiples, choices."""
        low, high = field.limits(self._config)
        # Bits beyond its span are reserved.
        smallest, largest = replace(field, bits=field.span_bits(self._config)).range
        value = value[: field.span_bits(self._config)]
        if field.signed:
            value = value.as_signed()
        faults = []
        if low > smallest:
            # Nearly all lower limits are one, and a test for zero is cheaper than a comparison.
            faults.append(value == 0 if low == 1 and smallest == 0 else value < low)
        if high < largest:
            faults.append(value > high)
        if field.multiple is not None:
            faults.append(value[: (field.unit(self._config) - 1).bit_length()].any())
        choices = field.allowed_values(self._config)
        if choices is not None and set(choices) != set(range(smallest, largest + 1)):
            faults.append(~Cat(value == choice for choice in choices).any())
        if field.plain and self._config.mode_numbers != (0,):
            # These fields are in EXEC.
            faults.append(value.any() & slice_field(self.word, Opcode.EXEC, "mode").any())
        return faults
