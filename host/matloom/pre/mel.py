"""Log-mel spectrograms and cepstral coefficients (MFCC), as TensorFlow computes them."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from matloom.ir.graph import Array
from matloom.pre.float_transform import logarithm, magnitudes, sum_in_order
from matloom.pre.sound import Sound, mel, require
from matloom.program import TensorInfo


@dataclass(frozen=True, kw_only=True)
class MelSound(Sound):
    """Magnitudes of a windowed Fourier transform, summed in triangles evenly spaced in mel.

    A raw sample has `samples` numbers, int16, of which 32768 stands for 1.0, or float32. All
    operations are in single precision and in a fixed order, so the C kernel gives the same bits.

    Members
    -------
    low, high:
        Lower and upper end of the bands in Hz.
    peak:
        Whether a waveform is first divided by its largest (most positive) sample, as in MLPerf
        Tiny.
    """

    low: float = 20.0
    high: float = 4000.0
    peak: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.low < self.high, "low", f"0 to {self.high} (high)", self.low)
        most = self.rate / 2
        require(self.high <= most, "high", f"at most {most} (half the rate)", self.high)
        if self.cosines() is not None:
            count = self.shape[1]
            require(1 <= count <= self.mels, "coefficients", f"1 to {self.mels}", count)

    @property
    @abstractmethod
    def floor_and_offset(self) -> tuple[float, float]:
        """Smallest value of a band, to which lower ones are raised, and offset added to bands.

        Both apply before the logarithm.
        """

    @abstractmethod
    def used_bins(self) -> tuple[int, int]:
        """Return the indices of the first and the last frequency that bands use, inclusive."""

    @abstractmethod
    def cosines(self) -> Array | None:
        """Return the cosine transform, (coefficients, mels); None if there are no coefficients."""

    def hann(self) -> Array:
        """Return the Hann window, float32 (window,)."""
        phases = 2 * np.pi * np.arange(self.window) / self.window
        found: Array = (0.5 - 0.5 * np.cos(phases)).astype(np.float32)
        return found

    def bands(self) -> list[tuple[int, Array]]:
        """Return the index of the first frequency, and the weights, float32, of each band."""
        edges = np.linspace(mel(self.low), mel(self.high), self.mels + 2)
        place = mel(np.arange(self.bins) * self.rate / (2 * (self.bins - 1)))
        first, last = self.used_bins()
        found = []
        for left, top, right in zip(edges, edges[1:], edges[2:], strict=False):
            weights = np.minimum((place - left) / (top - left), (right - place) / (right - top))
            weights[:first] = weights[last + 1 :] = 0
            (kept,) = (weights > 0).nonzero()
            begin, end = (kept[0], kept[-1] + 1) if len(kept) else (0, 0)
            found.append((int(begin), weights[begin:end].astype(np.float32)))
        return found

    def apply(self, raw: Array) -> Array:
        """Return the features of a waveform, float32 of `shape`."""
        waves = self.cut(raw, np.int16, np.float32)
        real = waves.astype(np.float32)
        if self.peak:
            used = raw.max()
            real = real / np.float32(used) if used > 0 else real
        elif raw.dtype == np.int16:
            real = real * np.float32(1 / (1 << 15))
        padded = np.zeros((self.frames, self.points), np.float32)
        padded[:, : self.window] = real * self.hann()
        found = magnitudes(padded)
        summed_up = [sum_in_order(found[:, at : at + len(row)], row) for at, row in self.bands()]
        floor, offset = map(np.float32, self.floor_and_offset)
        logarithms = logarithm(np.maximum(np.stack(summed_up, axis=1), floor) + offset)
        matrix = self.cosines()
        if matrix is None:
            return logarithms
        return np.stack([sum_in_order(logarithms, row) for row in matrix], axis=1)

    def describe(self, info: TensorInfo) -> str:
        """Return a phrase on the features and their type."""
        kind = "logarithms" if self.cosines() is None else f"{self.shape[1]} cepstral coefficients"
        return f"{self.frames_in_words()}: {kind}, in single precision; then {info.dtype}"

    def _cosines(self, coefficients: int) -> Array:
        """Return the matrix (coefficients, mels) of a DCT-II with the factor sqrt(2 / mels)."""
        at = np.outer(np.arange(coefficients), np.arange(self.mels) + 0.5)
        found: Array = (np.sqrt(2 / self.mels) * np.cos(np.pi / self.mels * at)).astype(np.float32)
        return found


@dataclass(frozen=True, kw_only=True)
class LogMel(MelSound):
    """Log-mel spectrogram ln(bands + offset), as `tf.signal` computes it, or its MFCC.

    The steps are tf.abs(tf.signal.stft), linear_to_mel_weight_matrix and, for `coefficients`,
    mfccs_from_log_mel_spectrograms. MLPerf Tiny's DS-CNN has ``coefficients=10, peak=True``.

    Members
    -------
    offset:
        Offset added to each band.
    coefficients:
        Number of MFCC; None for logarithms.
    """

    offset: float = 1e-6
    coefficients: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.offset >= 1e-30, "offset", "1e-30 or more", self.offset)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of frames, and number of features in each."""
        return self.frames, self.mels if self.coefficients is None else self.coefficients

    @property
    def floor_and_offset(self) -> tuple[float, float]:
        """Smallest value of a band, 0, which has no effect; and `offset`, added to each band."""
        return 0.0, self.offset

    def used_bins(self) -> tuple[int, int]:
        """Return the indices of the first and the last frequency that bands use: all except 0."""
        return 1, self.bins - 1

    def cosines(self) -> Array | None:
        """Return the cosine transform, or None if `coefficients` is None."""
        return None if self.coefficients is None else self._cosines(self.coefficients)


@dataclass(frozen=True, kw_only=True)
class Mfcc(MelSound):
    """MFCC of TensorFlow's operators `audio_spectrogram` (squared magnitudes) and `mfcc`.

    Arm's ML-KWS networks and TensorFlow's speech_commands use them: ``window=640`` and
    ``coefficients=10`` for Arm's DS-CNN.
    """

    coefficients: int = 13

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of frames, and number of coefficients in each."""
        return self.frames, self.coefficients

    @property
    def floor_and_offset(self) -> tuple[float, float]:
        """Smallest value of a band in the operator `mfcc`, and an offset of 0."""
        return 1e-12, 0.0

    def used_bins(self) -> tuple[int, int]:
        """Return the indices of the first and the last frequency that the operator `mfcc` uses.

        It leaves out some near `low`.
        """
        width = self.rate / (2 * (self.bins - 1))
        return int(1.5 + self.low / width), int(self.high / width)

    def cosines(self) -> Array:
        """Return the cosine transform, (coefficients, mels)."""
        return self._cosines(self.coefficients)
