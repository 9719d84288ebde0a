"""Requantisation of sums to int8 or int16: multiplier, shift, rounding, zero point, limits."""

from dataclasses import dataclass, replace

import numpy as np

from matloom.arch.numerics import LIMBS, Rounding

#: Bytes of an int16 element.
WORD_BYTES = 2


@dataclass(frozen=True, kw_only=True)
class Requantisation:
    """Requantisation of sums to elements of one or two bytes.

    It has a multiplier and shift (scalars, or arrays by channel), rounding, zero point and limits.
    """

    multiplier: np.ndarray | int
    shift: np.ndarray | int
    zero: int
    low: int
    high: int
    rounding: Rounding = Rounding.DOUBLE
    element_bytes: int = 1

    @property
    def varies_by_channel(self) -> bool:
        """Whether channels differ in multiplier or shift."""
        return len(set(self.pairs)) > 1

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Multiplier and shift of each channel, or a single pair for all of them."""
        multipliers, shifts = np.atleast_1d(self.multiplier), np.atleast_1d(self.shift)
        return list(zip(multipliers.tolist(), shifts.tolist(), strict=True))

    def repeat(self, sets: int) -> "Requantisation":
        """Return the requantisation of `sets` copies of these channels, one after another."""
        if not self.varies_by_channel:
            return self
        return replace(
            self, multiplier=np.tile(self.multiplier, sets), shift=np.tile(self.shift, sets)
        )

    def post(self) -> dict[str, int]:
        """Return the fields of a POST instruction that requantises in this way."""
        multiplier, shift = (0, 0) if self.varies_by_channel else self.pairs[0]
        limits = {"clamp_low": self.low, "clamp_high": self.high}
        if self.element_bytes == WORD_BYTES:
            for side, limit in (("low", self.low), ("high", self.high)):
                limits |= {f"clamp_{side}": limit >> 8, f"{side}_byte": limit & 255}
            limits["words"] = 1
        return {
            "rounding": self.rounding,
            "channel_scale": int(self.varies_by_channel),
            "multiplier": multiplier,
            "shift": shift,
            "output_zero": self.zero,
            **limits,
        }


#: Placeholder for the scale of a stage that stores byte limbs, whose POSTs have their own.
UNSCALED = Requantisation(multiplier=2**30, shift=1, zero=0, low=-128, high=127)


def limb_fields(limb: int) -> dict[str, int]:
    """Return the POST fields that write one byte limb of 32-bit sums (`numerics.from_limbs`)."""
    pre_shift, shift = LIMBS[limb]
    return {
        "rounding": Rounding.SINGLE,
        "pre_shift": pre_shift,
        "multiplier": 2**30,
        "shift": shift,
        "clamp_low": -128,
        "clamp_high": 127,
    }
