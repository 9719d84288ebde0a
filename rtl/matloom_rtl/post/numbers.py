"""Number formats of a POST command: element size, limits, and rounding rule."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.floats import FLOAT_FORMATS
from matloom.arch.isa import Opcode
from matloom.arch.modes import FP32_FORMAT, MAC_MODES
from matloom.arch.numerics import Rounding
from matloom_rtl.arith.widen import Widen
from matloom_rtl.array.cells import decode_flags
from matloom_rtl.ports import body_layout

__all__ = ["Numbers", "count_parts", "numbers_layout"]


def numbers_layout(config: Config) -> data.StructLayout:
    """Return the layout of the output of `Numbers`.

    Fields
    ------
    low, high:
        Smallest and largest result as integers: bytes, or words with word elements.
    size:
        Binary logarithm of the element size in bytes. Only with multi-byte elements.
    floating:
        The rounding rule is FLOAT. This field and the following exist only with floating-point
        modes.
    fp32:
        Elements in the scratchpad are fp32.
    format:
        Index in `Config.float_modes` of the format of elements that are not fp32.
    float_low, float_high:
        Smallest and largest result as fp32.
    """
    limit = signed(16 if config.has_words else 8)
    fields: dict = {"low": limit, "high": limit}
    if config.element_size_bits:
        fields["size"] = config.element_size_bits
    if config.has_float:
        fields |= {"floating": 1, "fp32": 1, "format": range(len(config.float_modes))}
        fields |= {"float_low": 32, "float_high": 32}
    return data.StructLayout(fields)


class Numbers(wiring.Component):
    """Decode the formats and limits of a command, once for the reader, the lanes and the writer.

    Latency: none for `low` and `high`, `Widen.LATENCY` cycles for `float_low` and `float_high`, one
    cycle for everything else. Throughput: one command per cycle. Never stalls. Reset clears
    nothing, because the next command overwrites everything.

    Members
    -------
    command: in
    o: out
        `numbers_layout`.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "command": In(body_layout(Opcode.POST, config)),
                "o": Out(numbers_layout(config)),
            }
        )

    def elaborate(self, platform):
        """Return the module: a register for each property of the command's numbers."""
        m = Module()
        m.d.comb += [self.o.low.eq(self._limit("low")), self.o.high.eq(self._limit("high"))]
        if self._config.has_float:
            self._decode_rule(m)
        if self._config.element_size_bits:
            self._decode_size(m)
        return m

    def _limit(self, side: str):
        """Return the smallest or largest result, as `side` is ``low`` or ``high``."""
        command = self.command
        limit = command[f"clamp_{side}"]
        if not self._config.has_words:
            return limit
        return Mux(command.words, Cat(command[f"{side}_byte"], limit).as_signed(), limit)

    def _decode_rule(self, m: Module):
        """Decode whether results are floating-point, their format, and their fp32 limits."""
        config, command = self._config, self.command
        facts = {
            "floating": command.rounding == Rounding.FLOAT,
            "fp32": command.pre_shift == FP32_FORMAT,
            "format": decode_flags(command.pre_shift, config).get("format", 0),
        }
        self._register(m, facts)
        for side in ("low", "high"):
            m.submodules[f"limit_{side}"] = widen = Widen(("fp8_e5m2",))
            m.d.comb += [
                widen.bits.eq(command[f"clamp_{side}"]),
                self.o[f"float_{side}"].eq(widen.o.as_value()),
            ]

    def _decode_size(self, m: Module):
        """Decode the size of an element: 2**`size` bytes."""
        config, command = self._config, self.command
        size = command.words if config.has_words else 0
        if config.has_float:
            double = Cat(command.pre_shift == number for number in _two_byte_formats()).any()
            of_format = Mux(command.pre_shift == FP32_FORMAT, 2, double)
            size = Mux(command.rounding == Rounding.FLOAT, of_format, size)
        self._register(m, {"size": size})

    def _register(self, m: Module, facts: dict):
        """Show values, given by name, in the output's fields one cycle later."""
        for name, value in facts.items():
            fact = Signal(self.o.shape()[name].shape, name=name, reset_less=True)
            m.d.sync += fact.eq(value)
            m.d.comb += self.o[name].eq(fact)


def count_parts(m: Module, size, taken, name: str):
    """Count the 2**`size` reads or writes of a vector, whenever `taken` is set.

    Return the index of the current one, and whether it is the last.
    """
    part = Signal(len(size), name=f"part_{name}")
    last = Signal(name=f"last_part_{name}")
    m.d.comb += last.eq(part == (1 << size) - 1)
    with m.If(taken):
        m.d.sync += part.eq(Mux(last, 0, part + 1))
    return part, last


def _two_byte_formats() -> tuple[int, ...]:
    """Return the codes of the formats with two-byte elements."""
    return tuple(MAC_MODES.index(name) for name, form in FLOAT_FORMATS.items() if form.bytes == 2)
