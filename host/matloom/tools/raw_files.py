"""Reads a picture, sound or array as the input of a run, by the suffix of its file."""

import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from matloom.errors import MissingPackageError, UserError, reason
from matloom.ir.graph import Array
from matloom.pre import preprocessing_of, single_input
from matloom.program import Program
from matloom.tools.arrays import ARRAYS_LIMIT, read_single

_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".webp")
#: Suffixes of files that hold the data of one input.
SUFFIXES = (".npy", ".wav", *_PICTURES)
_SAMPLE_BYTES = 2


@dataclass(frozen=True, kw_only=True)
class RawFile:
    """Contents of a file: an array, and for sound the samples per second."""

    array: Array
    rate: int | None = None

    def by_name(self, program: Program) -> dict[str, Array]:
        """Return the array by the name of a program's only input.

        Raises
        ------
        UserError
            The program has several inputs, or expects sound at another rate.
        """
        name = single_input(program, "--input")
        wanted = getattr(preprocessing_of(program).get(name), "rate", None)
        if None not in (wanted, self.rate) and wanted != self.rate:
            raise UserError(
                f"--input must have {wanted} samples a second, not {self.rate}",
                hint=f"sox IN.wav -r {wanted} OUT.wav converts it",
            )
        return {name: self.array}


def read_raw(option: str, source: Path) -> RawFile:
    """Return the array of a file: .npy as it is, .wav as int16, a picture as RGB bytes.

    Raises
    ------
    UserError
        The file is missing, damaged or of another kind; the message begins with `option`.
    MissingPackageError
        The file is a picture, and Pillow is not installed.
    """
    suffix = source.suffix.lower()
    if not source.is_file():
        raise UserError(
            f"{option} cannot be read: {source}: no such file",
            hint="check the path, or give random",
        )
    if suffix == ".npy":
        return RawFile(array=read_single(option, source))
    return (
        _read_sound(option, source)
        if suffix == ".wav"
        else RawFile(array=_read_picture(option, source))
    )


def _read_sound(option: str, source: Path) -> RawFile:
    """Return the samples of a .wav file of one channel and 16 bits."""
    try:
        with wave.open(str(source)) as stream:
            kind = stream.getnchannels(), stream.getsampwidth()
            rate, data = stream.getframerate(), stream.readframes(ARRAYS_LIMIT // _SAMPLE_BYTES)
    except (wave.Error, EOFError) as error:
        raise UserError(
            f"{option} must be a .wav file, not {str(source)!r}: {reason(error)}",
            hint="copy it again, or convert it: sox IN OUT.wav",
        ) from None
    if kind != (1, _SAMPLE_BYTES):
        raise UserError(
            f"{option} must be of one channel and 16 bits, not {kind[0]} and {8 * kind[1]}",
            hint="sox IN.wav -c 1 -b 16 OUT.wav converts it",
        )
    return RawFile(array=np.frombuffer(data, "<i2"), rate=rate)


def _read_picture(option: str, source: Path) -> Array:
    """Return the pixels of a picture file, uint8 (height, width, 3)."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ModuleNotFoundError:
        raise MissingPackageError("pillow", "reading pictures") from None
    try:
        with Image.open(source) as picture:
            return np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise UserError(
            f"{option} must be a picture, not {str(source)!r}: {reason(error)}",
            hint="give a .png, .jpg, .npy, .npz or .wav file",
        ) from None
