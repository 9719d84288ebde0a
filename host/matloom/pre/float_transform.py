"""Fourier transform and logarithm in single precision, in an order that C repeats bit for bit.

Each sum and product is rounded separately. Only the tables depend on a library's cosine or
logarithm; they are rounded from double precision.
"""

import numpy as np

from matloom.ir.graph import Array

_SINGLE = np.float32
#: Coefficients of the polynomial for ln(1 + f) in Cephes' logf (Moshier), the highest power first.
LOGARITHM = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
#: ln 2 in two parts, and the square root of a half.
_LN_2 = (0.693359375, -2.12194440e-4)
_ROOT_HALF = 0.70710678118654752440


def twiddles(points: int) -> tuple[Array, Array]:
    """Return the real and imaginary parts of exp(-2 pi i k / points) for k below points / 2."""
    phases = -2 * np.pi * np.arange(points // 2) / points
    return np.cos(phases).astype(_SINGLE), np.sin(phases).astype(_SINGLE)


def sample_order(points: int) -> Array:
    """Return the indices of samples in the order for the first stage, which is bit-reversed."""
    found = np.zeros(1, np.int64)
    while len(found) < points:
        found = np.concatenate([2 * found, 2 * found + 1])
    return found


def magnitudes(frames: Array) -> Array:
    """Return the magnitudes of the Fourier transform of rows of float32, whose length is 2**n.

    The result has the frequencies from 0 to half the sampling rate, both included.
    """
    points = frames.shape[-1]
    real = frames[..., sample_order(points)].astype(_SINGLE)
    imaginary = np.zeros_like(real)
    cosines, sines = twiddles(points)
    length = 1
    while length < points:
        c, s = (table[:: points // (2 * length)] for table in (cosines, sines))
        shape = (*frames.shape[:-1], points // (2 * length), 2, length)
        r, i = real.reshape(shape), imaginary.reshape(shape)
        turned_r = c * r[..., 1, :] - s * i[..., 1, :]
        turned_i = c * i[..., 1, :] + s * r[..., 1, :]
        real = np.stack([r[..., 0, :] + turned_r, r[..., 0, :] - turned_r], axis=-2)
        imaginary = np.stack([i[..., 0, :] + turned_i, i[..., 0, :] - turned_i], axis=-2)
        length *= 2
    real, imaginary = (
        part.reshape(frames.shape)[..., : points // 2 + 1] for part in (real, imaginary)
    )
    found: Array = np.sqrt(real * real + imaginary * imaginary)
    return found


def sum_in_order(values: Array, weights: Array) -> Array:
    """Return the sums of `values` times `weights` along the last axis, added one after another."""
    found = np.zeros(values.shape[:-1], _SINGLE)
    for number, weight in enumerate(weights):
        found += values[..., number] * weight
    return found


def logarithm(numbers: Array) -> Array:
    """Return natural logarithms of positive float32, within two units of the last place."""
    fraction, exponent = np.frexp(numbers)
    low = fraction < _SINGLE(_ROOT_HALF)
    f = np.where(low, fraction + fraction, fraction) - _SINGLE(1)
    power = (exponent - low).astype(_SINGLE)
    square = f * f
    result = np.full_like(f, LOGARITHM[0])
    for coefficient in LOGARITHM[1:]:
        result = result * f + _SINGLE(coefficient)
    result = result * f * square + power * _SINGLE(_LN_2[1])
    result = result - _SINGLE(0.5) * square + f
    made: Array = result + power * _SINGLE(_LN_2[0])
    return made
