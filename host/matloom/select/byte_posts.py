"""POSTs of element-wise stages on bytes; the last one writes int8 or int16 elements."""

from matloom.arch.isa import Addend, Destination, Source
from matloom.arch.numerics import Rounding
from matloom.select.requantisation import WORD_BYTES, Requantisation
from matloom.select.stage import Posts


def requantise_posts(input_zero: int, result: Requantisation) -> Posts:
    """Return a POST instruction that changes the scale and the zero point of bytes."""
    post = {"source": Source.SPAD, "destination": Destination.SPAD, "bias": -input_zero}
    return ((0, {**post, **result.post()}),)


def narrowing_posts(input_zero: int, result: Requantisation) -> Posts:
    """Return the POSTs (instructions) that requantise int16 to bytes, by way of accumulators."""
    kept = {
        "source": Source.SPAD,
        "destination": Destination.ACC_SET,
        "rounding": Rounding.DOUBLE,
        "bias": -input_zero,
        "multiplier": 2**30,
        "shift": 1,
        "words": 1,
    }
    return (0, kept), (
        None,
        {"source": Source.ACC, "destination": Destination.SPAD, **result.post()},
    )


def sum_posts(
    zeros: tuple[int, int],
    scales: tuple[tuple[int, int], tuple[int, int]],
    left_shift: int,
    result: Requantisation,
) -> Posts:
    """Return the POST instructions (fields) that add two tensors.

    One POST for each input adds it, scaled, to the accumulators; the last one requantises the sum.
    `zeros` and `scales` are the inputs' zero points and multipliers with shifts; both inputs are
    first shifted left by `left_shift`.
    """
    words = {"words": 1} if result.element_bytes == WORD_BYTES else {}
    scaled = tuple(
        (
            index,
            {
                "source": Source.SPAD,
                "destination": Destination.ACC_ADD if index else Destination.ACC_SET,
                "rounding": Rounding.DOUBLE,
                "bias": -zero,
                "pre_shift": left_shift,
                "multiplier": multiplier,
                "shift": shift,
                **words,
            },
        )
        for index, (zero, (multiplier, shift)) in enumerate(zip(zeros, scales, strict=True))
    )
    last = {"source": Source.ACC, "destination": Destination.SPAD, **result.post()}
    return (*scaled, (None, last))


def addend_posts(scaled: int, posts: Posts, zero: int, addend: Addend = Addend.ADD) -> Posts:
    """Return two POST instructions for an addition with one operand that needs only a shift.

    Parameters
    ----------
    scaled:
        Index of the other operand, 0 or 1, which is scaled into the accumulators.
    posts:
        Result of `sum_posts`.
    zero:
        Zero point of the operand that is shifted, and added as it is read.
    addend:
        ADD, or SQUARE for the square of the difference instead of the sum.
    """
    first = {**posts[scaled][1], "destination": Destination.ACC_SET}
    added = {"source": Source.SPAD, "addend": addend, "factor_zero": zero}
    return (scaled, first), (1 - scaled, {**posts[-1][1], **added})


def product_posts(zeros: tuple[int, int], result: Requantisation) -> Posts:
    """Return the POST instructions that multiply two inputs with the zero points `zeros`.

    The first one writes input 0 to the accumulators; the second one multiplies them by input 1.
    """
    words = {"words": 1} if result.element_bytes == WORD_BYTES else {}
    factor = {
        "source": Source.SPAD,
        "destination": Destination.ACC_SET,
        "rounding": Rounding.DOUBLE,
        "bias": -zeros[0],
        "multiplier": 2**30,
        "shift": 1,
        **words,
    }
    product = {
        "source": Source.SPAD,
        "destination": Destination.SPAD,
        "product": 1,
        "factor_zero": zeros[1],
        **result.post(),
    }
    return (0, factor), (1, product)
