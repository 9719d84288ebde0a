"""Fourier transform of 16-bit integers, as Kiss FFT computes it with ``FIXED_POINT=16``.

Each stage of radix 4 or 2 first divides by its radix, so that nothing overflows; products are
rounded to 15 bits of fraction, halves up.
"""

from typing import Any, NamedTuple

import numpy as np

from matloom.ir.graph import Array

_MAX_INT16 = 32767
_FRACTION_BITS = 15


class Complex(NamedTuple):
    """Real and imaginary parts, int64 arrays of 16-bit values."""

    real: Array
    imaginary: Array

    def at(self, places: Any) -> "Complex":
        """Return the numbers that an index, slice or array of indices selects on the last axis."""
        return Complex(self.real[..., places], self.imaginary[..., places])


def twiddles(points: int) -> Complex:
    """Return exp(-2 pi i k / points) for k from 0 to points - 1, with 15 fraction bits."""
    return _round_twiddles(-2 * np.pi * np.arange(points) / points)


def half_twiddles(points: int) -> Complex:
    """Return the factors that turn a complex transform of half the length into one of real numbers.

    They have 15 fraction bits; there are ``points // 4``.
    """
    half = points // 2
    return _round_twiddles(-np.pi * ((np.arange(half // 2) + 1) / half + 0.5))


def radices(points: int) -> list[int]:
    """Return the radix, 4 or 2, of each stage; stages are computed from the last to the first."""
    found = []
    while points > 1:
        found.append(4 if points % 4 == 0 else 2)
        points //= found[-1]
    return found


def sample_order(points: int) -> Array:
    """Return the indices of samples in the order in which the first stage takes them."""
    if points == 1:
        return np.zeros(1, np.int64)
    radix = radices(points)[0]
    inner = sample_order(points // radix)
    return np.concatenate([radix * inner + part for part in range(radix)])


def real_transform(samples: Array) -> Complex:
    """Return the transform of rows of integers, divided by their length.

    The result has the frequencies from 0 to half the sampling rate, both included.
    """
    points = samples.shape[-1]
    half = points // 2
    wide = samples.astype(np.int64)
    made = _transform(Complex(wide[..., ::2], wide[..., 1::2]))
    first = _divide(made.at(slice(1)), 2)
    near = _divide(made.at(slice(1, half // 2 + 1)), 2)
    far = made.at(slice(half - 1, half - half // 2 - 1, -1))
    far = _divide(Complex(far.real, _wrap(-far.imaginary)), 2)
    even, odd = _add(near, far), _add(near, far, -1)
    rotated = _multiply(odd, half_twiddles(points))
    low = [(even.real + rotated.real) >> 1, (even.imaginary + rotated.imaginary) >> 1]
    high = [(even.real - rotated.real) >> 1, (rotated.imaginary - even.imaginary) >> 1]
    ends = [_wrap(first.real + first.imaginary), _wrap(first.real - first.imaginary)]
    zero = np.zeros_like(ends[0])
    result = np.zeros((2, *samples.shape[:-1], half + 1), np.int64)
    for row, begin, end, below, above in zip(
        result, (ends[0], zero), (ends[1], zero), low, high, strict=True
    ):
        row[..., :1], row[..., half:] = begin, end
        row[..., 1 : half // 2 + 1] = below
        row[..., half - 1 : half - half // 2 - 1 : -1] = above
    return Complex(*result)


def _transform(numbers: Complex) -> Complex:
    """Return the transform of complex numbers along the last axis, divided by its length."""
    points, factors = numbers.real.shape[-1], twiddles(numbers.real.shape[-1])
    made, length = numbers.at(sample_order(points)), 1
    for radix in reversed(radices(points)):
        stride = points // (radix * length)
        shape = (*numbers.real.shape[:-1], stride, radix, length)
        split = _divide(Complex(*(part.reshape(shape) for part in made)), radix)
        first, *rest = (Complex(*(part[..., n, :] for part in split)) for n in range(radix))
        rotated = [
            _multiply(part, factors.at(stride * number * np.arange(length)))
            for number, part in enumerate(rest, 1)
        ]
        pieces = _radix_2(first, *rotated) if radix == 2 else _radix_4(first, *rotated)
        made = Complex(
            *(
                np.stack(parts, axis=-2).reshape(numbers.real.shape)
                for parts in zip(*pieces, strict=True)
            )
        )
        length *= radix
    return made


def _radix_2(first: Complex, second: Complex) -> list[Complex]:
    """Return the sum and the difference of two inputs: a butterfly of radix 2."""
    return [_add(first, second), _add(first, second, -1)]


def _radix_4(first: Complex, second: Complex, third: Complex, fourth: Complex) -> list[Complex]:
    """Return the discrete Fourier transform of four inputs: a butterfly of radix 4."""
    across, even = _add(first, third, -1), _add(first, third)
    odd, rotated = _add(second, fourth), _add(second, fourth, -1)
    rotated = Complex(rotated.imaginary, -rotated.real)
    return [
        _add(even, odd),
        _add(across, rotated),
        _add(even, odd, -1),
        _add(across, rotated, -1),
    ]


def _wrap(numbers: Array) -> Array:
    """Return numbers wrapped to int16, as int64."""
    return numbers.astype(np.int16).astype(np.int64)


def _round_half_up(products: Array) -> Array:
    """Return products of fractions, rounded half up to int16."""
    return _wrap((products + (1 << _FRACTION_BITS - 1)) >> _FRACTION_BITS)


def _divide(numbers: Complex, divisor: int) -> Complex:
    """Return complex numbers divided by an integer, by a rounded reciprocal."""
    return Complex(*(_round_half_up(part * (_MAX_INT16 // divisor)) for part in numbers))


def _multiply(a: Complex, b: Complex) -> Complex:
    """Return products of complex fractions, rounded to int16."""
    return Complex(
        _round_half_up(a.real * b.real - a.imaginary * b.imaginary),
        _round_half_up(a.real * b.imaginary + a.imaginary * b.real),
    )


def _add(a: Complex, b: Complex, sign: int = 1) -> Complex:
    """Return `a + sign * b`, wrapped to int16."""
    return Complex(_wrap(a.real + sign * b.real), _wrap(a.imaginary + sign * b.imaginary))


def _round_twiddles(phases: Array) -> Complex:
    """Return cosine and sine of phases as complex fractions of 15 bits."""
    return Complex(
        *(np.floor(0.5 + _MAX_INT16 * turn(phases)).astype(np.int64) for turn in (np.cos, np.sin))
    )
