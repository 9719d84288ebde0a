"""Base class of preprocessing of sound: cuts a waveform of fixed length into frames."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from matloom.errors import UserTypeError
from matloom.ir.graph import Array
from matloom.pre.errors import RawDataError
from matloom.pre.preprocessing import Preprocessing


@dataclass(frozen=True, kw_only=True)
class Sound(Preprocessing):
    """Preprocessing of a waveform that is cut into frames.

    Members
    -------
    samples:
        Number of samples of a waveform.
    rate:
        Samples per second.
    window, step:
        Length of a frame, and distance from the start of one to the next, in samples: 30 and 20 ms
        by default. Samples after the last whole frame are not used.
    mels:
        Number of bands of frequencies, evenly spaced in mel: 1127 ln(1 + f / 700).
    """

    axes: ClassVar[int] = 1

    samples: int = 16000
    rate: int = 16000
    window: int = 480
    step: int = 320
    mels: int = 40

    def __post_init__(self) -> None:
        for name in ("samples", "rate", "window", "step", "mels"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            require(whole and value >= 1, name, "a whole number from 1", value)
        require(2 <= self.window <= 1 << 12, "window", "2 to 4096 samples", self.window)
        require(
            self.samples >= self.window, "samples", f"{self.window} (window) or more", self.samples
        )

    @property
    def frames(self) -> int:
        """Number of frames of a waveform."""
        return 1 + (self.samples - self.window) // self.step

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of frames, and number of features in each."""
        return self.frames, self.mels

    @property
    def points(self) -> int:
        """Length of the Fourier transform: that of a frame, up to the next power of two."""
        return 1 << (self.window - 1).bit_length()

    @property
    def bins(self) -> int:
        """Number of frequencies of the transform, from 0 to half the sampling rate."""
        return self.points // 2 + 1

    def cut(self, raw: Array, *kinds: type) -> Array:
        """Return the frames (frames, window) of a waveform, whose dtype must be one of `kinds`.

        Raises
        ------
        UserTypeError
            The dtype of the waveform is not among `kinds`.
        RawDataError
            It has another length, or numbers that are not finite.
        """
        if raw.dtype not in [np.dtype(kind) for kind in kinds]:
            names = " or ".join(np.dtype(kind).name for kind in kinds)
            raise UserTypeError(
                f"a waveform must be {names}, not {raw.dtype}",
                hint="give samples as sound files hold them: int16, or float32 from -1 to 1",
            )
        if raw.shape != (self.samples,):
            raise RawDataError(
                f"a waveform must have {self.samples} samples in one axis, not {raw.shape}",
                hint="cut it, or put zeros after it" if raw.ndim == 1 else "",
            )
        if raw.dtype.kind == "f" and not np.isfinite(raw).all():
            raise RawDataError("samples of a waveform must be finite")
        views = np.lib.stride_tricks.sliding_window_view(raw, self.window)
        found: Array = views[:: self.step]
        return found

    def random(self, generator: np.random.Generator) -> Array:
        """Return a waveform of random int16 samples."""
        return generator.integers(-(1 << 15), 1 << 15, self.samples, np.int16)

    def frames_in_words(self) -> str:
        """Return a phrase with the number of frames, their length, and the number of bands."""
        return f"{self.frames} frames of {self.window} samples, {self.mels} bands"


def mel(frequency: Any) -> Any:
    """Return a frequency, or an array of them, converted from Hz to mel."""
    return 1127.0 * np.log1p(frequency / 700.0)


def require(fits: bool, name: str, rule: str, value: object) -> None:
    """Raise `RawDataError` unless `fits`, with a message that field `name` must be `rule`."""
    if not fits:
        raise RawDataError(f"{name} must be {rule}, not {value!r}")
