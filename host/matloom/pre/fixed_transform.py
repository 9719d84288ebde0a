"""Fourier transform of 16-bit integers, as Kiss FFT computes it with FIXED_POINT of 16.

Each stage of radix 4 or 2 first divides by its radix, so that nothing overflows; products are
rounded to 15 bits of fraction, halves up.
"""

from typing import Any, NamedTuple

import numpy as np

from matloom.ir.graph import Array

_LARGEST = 32767
_FRACTION_BITS = 15


class Complex(NamedTuple):
    """Real and imaginary parts, int64 within 16 bits."""

    real: Array
    imaginary: Array

    def at(self, places: Any) -> "Complex":
        """Return some of the numbers, along the last axis."""
        return Complex(self.real[..., places], self.imaginary[..., places])


def twiddles(points: int) -> Complex:
    """Return exp(-2 pi i k / points) in 15 bits of fraction."""
    return _rounded(-2 * np.pi * np.arange(points) / points)


def half_twiddles(points: int) -> Complex:
    """Return the factors that turn a complex transform of half the length into a real one."""
    half = points // 2
    return _rounded(-np.pi * ((np.arange(half // 2) + 1) / half + 0.5))


def radices(points: int) -> list[int]:
    """Return the radix of each stage, the last computed first."""
    found = []
    while points > 1:
        found.append(4 if points % 4 == 0 else 2)
        points //= found[-1]
    return found


def order(points: int) -> Array:
    """Return the positions of samples before the first stage."""
    if points == 1:
        return np.zeros(1, np.int64)
    radix = radices(points)[0]
    inner = order(points // radix)
    return np.concatenate([radix * inner + part for part in range(radix)])


def real_transform(samples: Array) -> Complex:
    """Return the frequencies 0 to half the rate of rows of integers, divided by their length."""
    points = samples.shape[-1]
    half = points // 2
    wide = samples.astype(np.int64)
    made = _transform(Complex(wide[..., ::2], wide[..., 1::2]))
    first = _divided(made.at(slice(1)), 2)
    near = _divided(made.at(slice(1, half // 2 + 1)), 2)
    far = made.at(slice(half - 1, half - half // 2 - 1, -1))
    far = _divided(Complex(far.real, _wrapped(-far.imaginary)), 2)
    even, odd = _plus(near, far), _plus(near, far, -1)
    rotated = _times(odd, half_twiddles(points))
    low = [(even.real + rotated.real) >> 1, (even.imaginary + rotated.imaginary) >> 1]
    high = [(even.real - rotated.real) >> 1, (rotated.imaginary - even.imaginary) >> 1]
    ends = [_wrapped(first.real + first.imaginary), _wrapped(first.real - first.imaginary)]
    zero = np.zeros_like(ends[0])
    result = np.zeros((2, *samples.shape[:-1], half + 1), np.int64)
    for row, begin, end, below, above in zip(
        result, (ends[0], zero), (ends[1], zero), low, high, strict=True
    ):
        row[..., :1], row[..., half:] = begin, end
        row[..., 1 : half // 2 + 1] = below
        row[..., half - 1 : half - half // 2 - 1 : -1] = above
    return Complex(*result)


def _transform(given: Complex) -> Complex:
    """Return the transform of complex numbers, stage by stage."""
    points, factors = given.real.shape[-1], twiddles(given.real.shape[-1])
    made, length = given.at(order(points)), 1
    for radix in reversed(radices(points)):
        stride = points // (radix * length)
        shape = (*given.real.shape[:-1], stride, radix, length)
        split = _divided(Complex(*(part.reshape(shape) for part in made)), radix)
        first, *rest = (Complex(*(part[..., n, :] for part in split)) for n in range(radix))
        rotated = [
            _times(part, factors.at(stride * number * np.arange(length)))
            for number, part in enumerate(rest, 1)
        ]
        pieces = _radix_2(first, *rotated) if radix == 2 else _radix_4(first, *rotated)
        made = Complex(
            *(
                np.stack(parts, axis=-2).reshape(given.real.shape)
                for parts in zip(*pieces, strict=True)
            )
        )
        length *= radix
    return made


def _radix_2(first: Complex, second: Complex) -> list[Complex]:
    return [_plus(first, second), _plus(first, second, -1)]


def _radix_4(first: Complex, second: Complex, third: Complex, fourth: Complex) -> list[Complex]:
    across, even = _plus(first, third, -1), _plus(first, third)
    odd, rotated = _plus(second, fourth), _plus(second, fourth, -1)
    rotated = Complex(rotated.imaginary, -rotated.real)
    return [
        _plus(even, odd),
        _plus(across, rotated),
        _plus(even, odd, -1),
        _plus(across, rotated, -1),
    ]


def _wrapped(numbers: Array) -> Array:
    return numbers.astype(np.int16).astype(np.int64)


def _halves_up(products: Array) -> Array:
    return _wrapped((products + (1 << _FRACTION_BITS - 1)) >> _FRACTION_BITS)


def _divided(given: Complex, divisor: int) -> Complex:
    return Complex(*(_halves_up(part * (_LARGEST // divisor)) for part in given))


def _times(a: Complex, b: Complex) -> Complex:
    return Complex(
        _halves_up(a.real * b.real - a.imaginary * b.imaginary),
        _halves_up(a.real * b.imaginary + a.imaginary * b.real),
    )


def _plus(a: Complex, b: Complex, sign: int = 1) -> Complex:
    return Complex(_wrapped(a.real + sign * b.real), _wrapped(a.imaginary + sign * b.imaginary))


def _rounded(phases: Array) -> Complex:
    return Complex(
        *(np.floor(0.5 + _LARGEST * turn(phases)).astype(np.int64) for turn in (np.cos, np.sin))
    )
