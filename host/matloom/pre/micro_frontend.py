"""TensorFlow's audio front end for microcontrollers, which computes in integers."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from matloom.ir.graph import Array
from matloom.pre.errors import RawDataError
from matloom.pre.fixed_transform import real_transform
from matloom.pre.sound import Sound, require
from matloom.program import TensorInfo

#: Fraction bits of window and bands, of smoothing factors, and of logarithms.
FILTER_BITS, _SMOOTHING_FRACTION, _LOG_BITS = 12, 14, 16
#: Fraction bits of PCAN's ratio of signal to noise, and of its output.
_SNR_BITS, _OUTPUT_BITS = 12, 6
_LOG_SEGMENTS = 128
_LN_2 = 45426
_WORD = 0xFFFFFFFF


@dataclass(frozen=True, kw_only=True)
class MicroFrontend(Sound):
    """Features of `tensorflow/lite/experimental/microfrontend`, bit for bit, times `scale`.

    The steps are window, transform, square roots of the bands' energy, noise subtraction, gain
    control (PCAN) and logarithm, as in TFLite Micro's micro_speech. A raw sample is int16
    (samples,), and each starts without a noise estimate. Sources: Wang et al., arXiv:1607.05666
    (PCAN), and the library in the single-precision form that TFLite Micro has.

    Members
    -------
    low, high:
        Lower and upper end of the bands in Hz.
    smoothing_bits:
        Fraction bits of the noise estimate.
    even_smoothing, odd_smoothing:
        Share of a new frame in the noise estimate of even bands, and of odd ones.
    min_signal:
        Minimum share of a signal that noise subtraction keeps.
    pcan:
        Whether gain control is used.
    strength, offset, gain_bits:
        Parameters of gain control, under the library's names.
    log_shift:
        Left shift of the logarithm in bits.
    scale:
        Scale of the features that the network was trained on.
    """

    low: float = 125.0
    high: float = 7500.0
    smoothing_bits: int = 10
    even_smoothing: float = 0.025
    odd_smoothing: float = 0.06
    min_signal: float = 0.05
    pcan: bool = True
    strength: float = 0.95
    offset: float = 80.0
    gain_bits: int = 21
    log_shift: int = 6
    scale: float = 10 / 256

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.low < self.high, "low", f"0 to {self.high} (high)", self.low)
        require(
            self.high < self.rate / 2, "high", f"below {self.rate / 2} (half the rate)", self.high
        )
        require(self.points >= 1 << 6, "window", "more than 32 samples", self.window)
        for name in ("even_smoothing", "odd_smoothing", "min_signal"):
            require(0 <= getattr(self, name) <= 1, name, "0 to 1", getattr(self, name))
        require(0 <= self.smoothing_bits <= 16, "smoothing_bits", "0 to 16", self.smoothing_bits)
        require(0 <= self.log_shift <= 12, "log_shift", "0 to 12", self.log_shift)
        if self.pcan and not (
            0 <= self.gain_shift <= 31 and self.smoothing_bits >= self.correction
        ):
            raise RawDataError(f"gain_bits must fit the window, not {self.gain_bits}")
        if max(begin + len(weights) for begin, weights in self.bands()) >= self.bins:
            raise RawDataError(f"high must leave a frequency above it, not {self.high}")

    @property
    def correction(self) -> int:
        """Left shift in bits that makes up for the division by the transform's length."""
        return self.points.bit_length() - 1 - FILTER_BITS // 2

    @property
    def gain_shift(self) -> int:
        """Right shift, in bits, of a product of signal and gain."""
        return self.gain_bits - self.correction - _SNR_BITS

    @property
    def smoothing(self) -> tuple[int, int, int]:
        """Smoothing of even and of odd bands, and `min_signal`, with 14 fraction bits."""
        given = (self.even_smoothing, self.odd_smoothing, self.min_signal)
        even, odd, least = (int(np.float32(item) * (1 << _SMOOTHING_FRACTION)) for item in given)
        return even, odd, least

    def hann(self) -> Array:
        """Return the Hann window, int16 (window,) with 12 fraction bits."""
        single, half = np.float32, np.float32(0.5)
        turn = single(single(np.pi) * single(2) / single(self.window))
        phases = turn * (np.arange(self.window, dtype=single) + half)
        real = half - half * np.cos(phases.astype(np.float64)).astype(single)
        rounded: Array = np.floor(real * single(1 << FILTER_BITS) + half).astype(np.int16)
        return rounded

    def bands(self) -> list[tuple[int, Array]]:
        """Return the index of the first frequency, and the weights, of each band.

        Weights are int64 with 12 fraction bits.
        """
        return _mel_bands(self.mels, self.low, self.high, self.rate, self.bins)

    def gains(self) -> Array:
        """Return the coefficients of the gain's parabola, int16 (33, 3), by bits of the noise."""
        return _gain_table(
            self.strength, self.offset, self.gain_bits, self.smoothing_bits - self.correction
        )

    def features(self, raw: Array) -> Array:
        """Return the features of a waveform as integers, uint16 (frames, mels)."""
        windowed = (self.cut(raw, np.int16).astype(np.int64) * self.hann()) >> FILTER_BITS
        # The library's absolute value of -32768 stays negative.
        largest = np.abs(windowed).astype(np.int16).max(axis=1).clip(0)
        shifts = [15 - int(most).bit_length() for most in largest]
        padded = np.zeros((self.frames, self.points), np.int64)
        padded[:, : self.window] = windowed << np.array(shifts)[:, np.newaxis]
        made = real_transform(padded)
        energy = (made.real**2 + made.imaginary**2).astype(np.int32).astype(np.int64)
        signal = np.empty((self.frames, self.mels), np.int64)
        for band, (begin, weights) in enumerate(self.bands()):
            signal[:, band] = energy[:, begin : begin + len(weights)] @ weights
        signal = _square_root(signal) >> np.array(shifts)[:, np.newaxis]
        return np.array(self._denoise(signal)).astype(np.uint16)

    def apply(self, raw: Array) -> Array:
        """Return the features times `scale`, float32 (frames, mels)."""
        result: Array = self.features(raw).astype(np.float32) * np.float32(self.scale)
        return result

    def describe(self, info: TensorInfo) -> str:
        """Return a phrase on the features and their type."""
        return (
            f"{self.frames_in_words()} of TensorFlow's micro front end, exactly; then {info.dtype}"
        )

    def _denoise(self, signal: Array) -> list[Array]:
        """Return the logarithms of each frame's signal after noise subtraction and gain control."""
        even, odd, least = self.smoothing
        share = np.where(np.arange(self.mels) % 2, odd, even)
        noise, found = np.zeros(self.mels, np.int64), []
        for frame in signal:
            large = (frame << self.smoothing_bits) & _WORD
            noise = (
                large * share + noise * ((1 << _SMOOTHING_FRACTION) - share)
            ) >> _SMOOTHING_FRACTION
            floor = (frame * least) >> _SMOOTHING_FRACTION
            kept = np.maximum((large - np.minimum(noise, large)) >> self.smoothing_bits, floor)
            if self.pcan:
                gain = _gain_of(noise, self.gains())
                ratio = ((kept * gain) >> self.gain_shift) & _WORD
                small = (ratio * ratio) >> (2 + 2 * _SNR_BITS - _OUTPUT_BITS)
                large_ratio = (ratio >> (_SNR_BITS - _OUTPUT_BITS)) - (1 << _OUTPUT_BITS)
                kept = np.where(ratio < 2 << _SNR_BITS, small, large_ratio)
            shift = self.correction
            value = (kept << shift) & _WORD if shift >= 0 else kept >> -shift
            found.append(np.minimum(_logarithm(value, self.log_shift), 0xFFFF))
        return found


def log_table() -> Array:
    """Return log2(1 + x) - x at 129 equidistant points x from 0 to 1, with 16 fraction bits."""
    x = np.arange(_LOG_SEGMENTS + 1) / _LOG_SEGMENTS
    return np.rint((np.log2(1 + x) - x) * (1 << _LOG_BITS)).astype(np.int64)


def _bit_length(numbers: Array) -> Array:
    """Return the number of bits of each number below 2**53."""
    found: Array = np.frexp(numbers.astype(np.float64))[1].astype(np.int64)
    return found


def _square_root(numbers: Array) -> Array:
    """Return square roots rounded to nearest, but at most 0xFFFF for numbers below 2**32.

    For larger numbers, they are at most 0xFFFFFFFF.
    """
    root = np.floor(np.sqrt(numbers.astype(np.float64))).astype(np.int64)
    root -= root * root > numbers
    root += (root + 1) * (root + 1) <= numbers
    most = np.where(numbers >> 32, _WORD, 0xFFFF)
    rounded: Array = root + ((numbers - root * root > root) & (root != most))
    return rounded


def _logarithm(numbers: Array, shift: int) -> Array:
    """Return natural logarithms of integers, times ``2**shift`` and rounded; 0 for 0 and 1."""
    given = np.maximum(numbers, 1)
    whole = _bit_length(given) - 1
    left = np.maximum(_LOG_BITS - whole, 0)
    rest = ((given - (1 << whole)) << left) >> np.maximum(whole - _LOG_BITS, 0)
    table, unit = log_table(), (1 << _LOG_BITS) // _LOG_SEGMENTS
    segment = rest // unit
    slope = table[segment + 1] - table[segment]
    fraction = rest + table[segment] + ((slope * (rest - unit * segment)) >> _LOG_BITS)
    half = 1 << _LOG_BITS - 1
    natural = (_LN_2 * ((whole << _LOG_BITS) + fraction) + half) >> _LOG_BITS
    result: Array = ((natural << shift) + half) >> _LOG_BITS
    return result


def _gain_of(noise: Array, gains: Array) -> Array:
    """Return the gain for noise estimates, a parabola between powers of two."""
    length = _bit_length(noise)
    start, first, second = gains[length].T.astype(np.int64)
    tenth = 11 - length
    place = ((noise << np.maximum(tenth, 0)) >> np.maximum(-tenth, 0)) & 0x3FF
    curve = (((second * place) >> 5) + (first << 5)) * place
    found: Array = np.where(
        noise <= 2, start, (start + ((curve + (1 << 14)) >> 15)).astype(np.int16)
    )
    return found


@lru_cache(maxsize=8)
def _gain_table(strength: float, offset: float, gain_bits: int, input_bits: int) -> Array:
    """Return the gain for each power of two as a parabola: int16 rows of start and coefficients."""

    def gain(number: int) -> int:
        """Return the gain for one input, rounded and limited to int16."""
        x = np.float32(number) / np.float32(1 << input_bits) + np.float32(offset)
        power = np.float32(np.float64(x) ** -np.float64(np.float32(strength)))
        real = np.float32(1 << gain_bits) * power
        return 32767 if real > 32767 else int(real + np.float32(0.5))

    rows: list[tuple[int, int, int]] = [(gain(0), 0, 0), (gain(1), 0, 0)]
    for length in range(2, 33):
        low = 1 << (length - 1)
        last = low + low - (length == 32)
        start, middle, end = gain(low), gain(low + (low >> 1)), gain(last)
        first = 4 * (middle - start) - (end - start)
        rows.append((start, first, end - start - first))
    return np.array(rows).astype(np.int16)


def _log1p(x: np.float32) -> np.float32:
    """Return ln(1 + x), rounded to nearest: C libraries' log1pf is often one step off."""
    return np.float32(np.log1p(np.float64(x)))


@lru_cache(maxsize=8)
def _mel_bands(mels: int, low: float, high: float, rate: int, bins: int) -> list[tuple[int, Array]]:
    """Return each mel band's first bin and the weights of its bins; `rate` is in Hz."""
    single = np.float32

    def in_mel(frequency: Any) -> Any:
        """Return a frequency in Hz as mels, in float32."""
        return single(1127) * _log1p(single(frequency) / single(700))

    bottom = in_mel(low)
    spacing = single(in_mel(high) - bottom) / single(mels + 1)
    edges = [bottom, *(bottom + spacing * single(number + 1) for number in range(mels + 1))]
    width = single(0.5 * rate / (single(bins) - 1))
    at = int(1.5 + single(low) / width)
    rising: list[tuple[int, list[int], list[int]]] = []
    for before, edge in pairwise(edges):
        begin, up, down = at, [], []
        while in_mel(single(at) * width) <= edge:
            weight = (edge - in_mel(single(at) * width)) / (edge - before)
            up.append(int(np.floor(weight * single(1 << FILTER_BITS) + single(0.5))))
            down.append(
                int(np.floor((single(1) - weight) * single(1 << FILTER_BITS) + single(0.5)))
            )
            at += 1
        rising.append((begin, up, down))
    # Each band falls where the next one rises.
    return [
        (begin, np.array([*down, *up], np.int64))
        for (begin, _, down), (_, up, _) in pairwise(rising)
    ]
