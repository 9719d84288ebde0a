"""Arithmetic of the array in each mode: products, adder trees, column sums."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from matloom.arch.config import Config
from matloom.arch.modes import MAC_MODES

__all__ = [
    "Cells",
    "decode_flags",
    "delay",
    "flags_layout",
    "operand_bits",
    "replicate",
]

#: Distance in bits between the two products that share a multiplier in a narrow mode.
_APART = 12


def flags_layout(config: Config) -> data.StructLayout:
    """Return the layout of the mode flags that travel with a vector.

    `narrow`: each weight byte holds two weights. `nibbles`: only the low four bits of each
    activation byte are used. `words`: activation bytes alternate between low and high bytes of
    16-bit words. `floating`: bytes form floating-point numbers in `format`, an index into
    `Config.float_modes`.
    """
    flags = {}
    if config.has_narrow:
        flags["narrow"] = 1
    if "i4xi4" in config.mac_modes:
        flags["nibbles"] = 1
    if config.has_words:
        flags["words"] = 1
    if config.has_float:
        flags["floating"] = 1
    if len(config.float_modes) > 1:
        flags["format"] = (len(config.float_modes) - 1).bit_length()
    return data.StructLayout(flags)


def decode_flags(mode: Value, config: Config) -> dict[str, Value]:
    """Return the flags of `flags_layout`, by name, of a mode: an index into `MAC_MODES`."""
    modes = {
        "narrow": ("i8xi4", "i4xi4"),
        "nibbles": ("i4xi4",),
        "words": ("i16xi8",),
        "floating": config.float_modes,
    }
    return {
        name: _format(mode, config) if name == "format" else _is_any(mode, modes[name])
        for name, _ in flags_layout(config)
    }


def _is_any(mode: Value, names: tuple[str, ...]) -> Value:
    """Return whether `mode`, an index into `MAC_MODES`, is that of any of these names."""
    return Cat(mode == MAC_MODES.index(name) for name in names).any()


def _format(mode: Value, config: Config) -> Value:
    """Return the index of a floating-point mode in `config.float_modes`."""
    names = config.float_modes
    return Cat(
        _is_any(mode, tuple(name for index, name in enumerate(names) if index >> bit & 1))
        for bit in range((len(names) - 1).bit_length())
    )


def operand_bits(config: Config) -> int:
    """Return the width in bits of an operand: 8 for a byte, 9 for a byte less a zero point."""
    return 9 if config.zero_points else 8


class Cells:
    """Arithmetic of the array, without the registers of operands and weights.

    Two 4-bit weights share a multiplier as the operand ``high * 4096 + low``, so that one product
    holds two: the low one in the 12 lower bits, and above them the high one minus the sign bit of
    the low one. Each has its own adder tree, with those sign bits as carries. 8-bit products
    use the same trees and are combined afterwards.

    16-bit words take two rows: the low byte, unsigned, in an even row, the high byte in an odd
    row. With words, even and odd rows have separate trees; the last addition shifts the sum of
    the high bytes left by eight bits.
    """

    def __init__(self, config: Config):
        self._config = config
        self._narrow, self._words = config.has_narrow, config.has_words

    @property
    def weight_bits(self) -> int:
        """Width of a stored weight."""
        return 14 if self._narrow else operand_bits(self._config)

    @property
    def sum_bits(self) -> int:
        """Width at which a sum of `rows` products cannot overflow."""
        return (23 if self._words else self._product_bits) + self.tree_levels

    @property
    def _product_bits(self) -> int:
        """Width at which a product of two operands cannot overflow.

        With zero points that is 17 bits, because a byte less a zero point is at least -255.
        """
        return 17 if self._config.zero_points else 16

    @property
    def second_bits(self) -> int:
        """Width at which the second sum of a narrow mode cannot overflow."""
        return _APART + self.tree_levels

    @property
    def tree_levels(self) -> int:
        """Number of levels of the adder tree of a column."""
        return (self._config.rows - 1).bit_length()

    @property
    def latency(self) -> int:
        """Cycles from registered operands to registered sums."""
        return 2 + self.tree_levels + self._narrow

    @property
    def sums_latency(self) -> int:
        """Latency of `sums` in cycles."""
        return self._narrow + self._words

    def operand(self, byte, flags):
        """Return a vector's byte as a multiplier operand."""
        if "nibbles" not in dict(flags_layout(self._config)):
            return byte
        return Cat(byte[:4], Mux(flags.nibbles, byte[3].replicate(4), byte[4:8]))

    def weight(self, byte, narrow):
        """Return a weight byte as the registers store it.

        This is the multiplier operand without redundant bits: bits 8 to 11 are equal.
        """
        if not self._narrow:
            return byte
        low_sign, high_sign = byte[3], byte[7]
        upper = (byte[4:8].as_signed() - low_sign)[:5]
        return Cat(
            byte[:4],
            Mux(narrow, low_sign.replicate(4), byte[4:8]),
            Mux(narrow, low_sign, high_sign),
            Mux(narrow, upper, high_sign.replicate(5)),
        )

    def products(self, m: Module, column: int, operands, weights, words):
        """Return the products of a column, with registers before and after each multiplier.

        FPGA multipliers have these registers inside, and are far from other logic: without the
        input registers, the route to the multiplier and the product would share a cycle.
        """
        bits = 2 * _APART if self._narrow else self._product_bits
        products = []
        for row, (operand, weight) in enumerate(zip(operands, weights, strict=True)):
            if self._narrow:
                weight = Cat(weight[:8], weight[8].replicate(4), weight[9:]).as_signed()
            if self._words and row % 2 == 0:
                operand = Cat(operand, operand[7] & ~words).as_signed()
            product = Signal(signed(bits), name=f"product_{column}_{row}", reset_less=True)
            operand = delay(m, operand, name=f"product_operand_{column}_{row}")
            weight = delay(m, weight, name=f"product_weight_{column}_{row}")
            m.d.sync += product.eq(operand * weight)
            products.append(product)
        return products

    def totals(self, m: Module, column: int, products):
        """Add a column's products in adder trees; return their outputs, as `sums` takes them."""
        if not self._words:
            return self._totals(m, f"{column}", products)
        even, odd = products[::2], products[1::2]
        return (
            *self._totals(m, f"{column}_even", even),
            *self._totals(m, f"{column}_odd", odd),
        )

    def _totals(self, m: Module, name: str, products):
        """Return the sum of products over rows, in parts if cells hold two narrow weights."""
        if not self._narrow:
            return (_tree(m, name, products),)
        low = _tree(m, name, [product[:_APART].as_signed() for product in products])
        upper = [product[_APART:].as_signed() for product in products]
        signs = [product[_APART - 1] for product in products]
        return (low, *_tree_with_carries(m, f"upper_{name}", upper, signs))

    def sums(self, m: Module, column: int, totals, flags):
        """Return a list of the sum of a column, or of two sums with narrow modes.

        `flags` holds, for each stage of this function, the mode flags of the vector in that stage.
        """
        if not self._words:
            return self._join_parts(m, f"{column}", totals, flags)
        half = len(totals) // 2
        even = self._join_parts(m, f"{column}_even", totals[:half], flags)
        odd = self._join_parts(m, f"{column}_odd", totals[half:], flags)
        made = []
        for number, (low, high) in enumerate(zip(even, odd, strict=True)):
            total = Signal(
                signed(self.second_bits if number else self.sum_bits),
                name=f"sum_{column}_{number}",
                reset_less=True,
            )
            shifted = high if number else Mux(flags[-1].words, high << 8, high)
            m.d.sync += total.eq(low + shifted)
            made.append(total)
        return made

    def _join_parts(self, m: Module, name: str, totals, flags):
        """Combine the totals of the low and upper parts of products, except in a narrow mode.

        Returns a tuple: one total, or two if the configuration has narrow modes. In a narrow mode,
        these are the two sums; in other modes, the first is the sum. Two totals come a cycle later.
        """
        if not self._narrow:
            return totals
        (low, upper, sign), narrow = totals, flags[0].narrow
        first = Signal(signed(len(low) + 4), name=f"first_{name}", reset_less=True)
        second = Signal(signed(len(upper)), name=f"second_{name}", reset_less=True)
        # The lower bits of a whole product are those of its lower part.
        whole = _add(low[_APART:].as_signed(), Mux(narrow, 0, upper).as_signed(), ~narrow & sign)
        m.d.sync += [first.eq(Cat(low[:_APART], whole)), second.eq(upper + sign)]
        return first, second


def delay(m: Module, value, *, reset=False, name="delayed"):
    """Return the value one cycle later."""
    later = Signal.like(value, name=name, reset_less=not reset)
    m.d.sync += later.eq(value)
    return later


def replicate(m: Module, flag, places: int, *, name: str, reset=False):
    """Return a list of `places` registers that all hold a flag one cycle later.

    Each drives some columns. A single register driving all columns would be the longest path of a
    chip with floating-point adders, which are far apart.
    """
    copies = [
        Signal(name=f"{name}_{place}", reset_less=not reset, attrs={"keep": 1})
        for place in range(places)
    ]
    m.d.sync += [copy.eq(flag) for copy in copies]
    return copies


def _add(a, b, carry):
    """Return ``a + b + carry`` with a single adder."""
    return (Cat(Const(1, 1), a).as_signed() + Cat(carry, b).as_signed())[1:].as_signed()


def _tree(m: Module, name: str, terms):
    """Return the sum of the terms; each level is registered and one bit wider."""
    return _tree_with_carries(m, name, terms, [])[0]


def _tree_with_carries(m: Module, name: str, terms, carries):
    """Return the sum of terms and carries without the last carry, and the last carry, delayed.

    There is one carry per term, or none; without carries, only the sum is returned.
    """
    level, carries = 0, list(carries)
    while len(terms) > 1:
        level += 1
        pairs = [terms[index : index + 2] for index in range(0, len(terms), 2)]
        terms = []
        for index, pair in enumerate(pairs):
            total = pair[0]
            if len(pair) == 2:
                total = _add(*pair, carries.pop(0)) if carries else pair[0] + pair[1]
            term = Signal(signed(len(total)), name=f"sum_{name}_{level}_{index}", reset_less=True)
            m.d.sync += term.eq(total)
            terms.append(term)
        carries = [delay(m, carry) for carry in carries]
    return terms[0], *carries
