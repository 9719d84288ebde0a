"""Proof of POST's products: each element, minus its zero point, times the oldest unused sum."""

from amaranth.hdl import Assert, Assume, Cat, Module, Mux

from matloom_rtl.formal.parts.pipeline import Pipeline
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.post.products import Products

__all__ = ["products", "products_proofs"]

#: Bits of a sum that a product of bytes uses, including its sign; bits of a column.
_SUM_BITS, _COLUMN_BITS = 9, 32

#: Left shifts of a byte that is added, and of one that is subtracted before squaring; bits of the
#: latter difference. As specified in the numerics of the engine.
_SHIFT, _SQUARE_SHIFT, _DIFFERENCE_BITS = 19, 6, 16

#: Bits of a word, and of the sum that multiplies it.
_WORD_BITS = 16


def products(unit: Products) -> Claim:
    """Claim each column's product, or its sum, two cycles after its byte.

    The queue of sums is removed, because it is proven separately: its output is taken as the oldest
    sum.
    """
    m = Module()
    whitebox = Whitebox(unit)
    queue = whitebox.child("waiting").unit
    free = whitebox.free("waiting", "r_data")
    m.submodules.unit = whitebox.fragment
    pipeline = Pipeline(m, Products.LATENCY)
    if unit._squares:
        pipeline.constant(unit.adds, unit.squares)
        m.d.comb += Assume(~(unit.adds & unit.squares))
    if unit._keeps:
        pipeline.constant(unit.adds, unit.keeps)
        m.d.comb += Assume(~unit.keeps | unit.adds)
    if unit._words:
        pipeline.constant(unit.words)
        m.d.comb += Assume(~(unit.words & (unit.adds | unit.squares)))
    kept = _COLUMN_BITS if unit._addends else _SUM_BITS
    columns = [unit.sums.word_select(n, _COLUMN_BITS)[:kept] for n in range(unit._columns)]
    m.d.comb += [
        # Each sum is queued, and taken with its byte.
        Assert((queue.w_en == unit.sums_arrived) & (queue.r_en == unit.bytes_arrived)),
        Assert(queue.w_data == Cat(columns)),
    ]
    pipeline.claim(unit.valid == pipeline.before(unit.bytes_arrived))
    pipeline.claim(unit.ended == pipeline.before(unit.ends))
    for column in range(unit._columns):
        byte = unit.bytes.word_select(column, unit._element_bits).as_signed() - unit.zero
        if unit._words:
            # A byte is sign-extended.
            element = unit.bytes.word_select(column, _WORD_BITS)
            extended = element[8:] == element[7].replicate(8)
            m.d.comb += Assume(unit.words | extended)
        whole = queue.r_data.word_select(column, kept)
        value = unit.values.word_select(column, _COLUMN_BITS).as_signed()
        # Factors and product: the proof covers equal factors, not the multiplication itself.
        factors = [whitebox.register(name=f"{name}_{column}") for name in ("byte", "factor")]
        for factor, given in zip(factors, _factors(unit, byte, whole), strict=True):
            pipeline.claim(factor == pipeline.before(given, 1))
        result = pipeline.before(factors[0] * factors[1], 1)
        if unit._addends:
            more = Mux(unit.keeps, 0, byte << _SHIFT) if unit._keeps else byte << _SHIFT
            added = (whole + more)[:_COLUMN_BITS].as_signed()
            result = Mux(unit.adds, pipeline.before(added), result)
        pipeline.claim(value == result)
    # The largest product: smallest byte, largest zero point, smallest sum.
    first = unit.values.word_select(0, _COLUMN_BITS).as_signed()
    largest = unit.valid & unit.ended & (first == 255 << _SUM_BITS - 1)
    pipeline.reach(largest & ~unit.adds if unit._addends else largest)
    return Claim(module=m, ports=(*free, *inputs_of(unit)))


def _factors(unit: Products, byte, whole):
    """Return both signed factors of a column: byte and sum, or for squares their difference twice.

    `byte` is the element minus its zero point, `whole` the sum.
    """
    given = byte[:_SUM_BITS].as_signed(), whole[:_SUM_BITS].as_signed()
    if unit._words:
        words = byte, whole[:_WORD_BITS].as_signed()
        given = tuple(Mux(unit.words, *each) for each in zip(words, given, strict=True))
    if not unit._squares:
        return given
    difference = (whole - (byte << _SQUARE_SHIFT))[:_DIFFERENCE_BITS].as_signed()
    return tuple(Mux(unit.squares, difference, each) for each in given)


def products_proofs(units: list) -> list[Proof]:
    """Return a proof for each unit of products in a chip."""
    return [
        Proof(
            kind="requantising",
            unit="Products",
            statement="each result is the product of its byte minus the zero point and the low 9 "
            "bits (signed) of the oldest unused sum, for all values; with addition, it is the sum "
            "of all 32 bits and the byte minus the zero point, shifted left by 19; with squares, "
            "the square of the low 16 bits (signed) of the sum minus that byte, shifted left by 6; "
            "with word products, that of a word and the low 16 bits (signed)",
            build=lambda unit=unit: products(unit),
            depth=Products.LATENCY + 2,
            cover_depth=8,
        )
        for unit in units
        if isinstance(unit, Products)
    ]
