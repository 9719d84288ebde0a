"""What a POST command says of its numbers: how large they are, and by which rule they go."""

from amaranth.hdl import Cat, Module, Mux, Signal

from matloom.arch.config import FP32_FORMAT, MAC_MODES, Config
from matloom.arch.floats import FLOAT_FORMATS
from matloom.arch.numerics import Rounding
from matloom_rtl.arith.widen import Widen
from matloom_rtl.array.cells import decode_flags

__all__ = ["Numbers"]


class Numbers:
    """Facts in registers beside a command, from the cycle after it on.

    Members
    -------
    size:
        Logarithm of the bytes of an element; where elements of several bytes are built.
    floating, fp32, format, limits:
        Whether the rule is FLOAT, and results are fp32 entries; the index of the format in
        `Config.float_modes`; the limits as numbers. Where floating-point modes are built.
    """

    def __init__(self, m: Module, config: Config, command):
        self._config = config
        self._command = command
        if config.has_float:
            self._decode_rule(m)
        if config.element_size_bits:
            self._decode_size(m)

    def _decode_rule(self, m: Module):
        config, command = self._config, self._command
        self.floating, self.fp32 = Signal(reset_less=True), Signal(reset_less=True)
        self.format = Signal(range(len(config.float_modes)), reset_less=True)
        m.d.sync += [
            self.floating.eq(command.rounding == Rounding.FLOAT),
            self.fp32.eq(command.pre_shift == FP32_FORMAT),
            self.format.eq(decode_flags(command.pre_shift, config).get("format", 0)),
        ]
        self.limits = []
        for side in ("low", "high"):
            m.submodules[f"limit_{side}"] = widen = Widen(("fp8_e5m2",))
            m.d.comb += widen.bits.eq(command[f"clamp_{side}"])
            self.limits.append(widen.o.as_value())

    def _decode_size(self, m: Module):
        config, command = self._config, self._command
        self.size = Signal(config.element_size_bits, reset_less=True)
        size = command.words if config.has_words else 0
        if config.has_float:
            double = Cat(command.pre_shift == number for number in _of_two_bytes()).any()
            of_format = Mux(command.pre_shift == FP32_FORMAT, 2, double)
            size = Mux(command.rounding == Rounding.FLOAT, of_format, size)
        m.d.sync += self.size.eq(size)

    def count_parts(self, m: Module, taken, name: str):
        """Count the reads or writes of a vector; return the one at hand, and if it is the last."""
        part = Signal(len(self.size), name=f"part_{name}")
        last = Signal(name=f"last_part_{name}")
        m.d.comb += last.eq(part == (1 << self.size) - 1)
        with m.If(taken):
            m.d.sync += part.eq(Mux(last, 0, part + 1))
        return part, last

    def limit(self, side: str):
        """Return the smallest or largest result: a byte, or of words one with a lower byte."""
        command = self._command
        limit = command[f"clamp_{side}"]
        if not self._config.has_words:
            return limit
        return Mux(command.words, Cat(command[f"{side}_byte"], limit).as_signed(), limit)


def _of_two_bytes() -> tuple[int, ...]:
    """Return the numbers of the formats whose elements have two bytes."""
    return tuple(MAC_MODES.index(name) for name, form in FLOAT_FORMATS.items() if form.bytes == 2)
