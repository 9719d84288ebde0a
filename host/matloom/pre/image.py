"""Preprocessing of images: crop, resize, order of channels, mean and scale."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from matloom.errors import UserTypeError, unknown_name_error
from matloom.ir.graph import Array
from matloom.kernels.real import quantise_array
from matloom.pre.errors import RawDataError
from matloom.pre.preprocessing import Preprocessing, as_tuples
from matloom.pre.resampling import MOST_PIXELS, RESIZES, WEIGHT_BITS, taps
from matloom.program import TensorInfo

#: Channels that a network may read: colours in either order, or grey.
CHANNELS = ("rgb", "bgr", "grey")

#: Weights of red, green and blue in grey, which add up to 1 << 16 (ITU-R BT.601, as in Pillow).
GREY_WEIGHTS = (19595, 38470, 7471)
_GREY_BITS = 16
_COLOURS = 3
_BYTES = 256

#: Top, left, height and width of the part of an image to keep.
Box = tuple[int, int, int, int]


@dataclass(frozen=True, kw_only=True)
class Image(Preprocessing):
    """Crop, resize, order of channels, then mean and scale: real = (byte - mean) * scale.

    A raw sample is uint8, height x width x 3 (red, green, blue), or height x width (x 1) for
    ``grey``. Pixels are resized in integers and rounded to bytes, as in Pillow and OpenCV; the C
    kernel gives the same bytes. The remaining steps are one table of 256 entries per channel.

    Members
    -------
    size:
        Height and width that the network reads.
    resize:
        ``"bilinear"``, ``"antialias"`` or ``"area"``: see `matloom.pre.resampling.taps`.
    crop:
        Part of the image to resize: all of it (None), the largest part in the middle that has the
        proportions of `size` (``"centre"``), or a box of top, left, height and width.
    channels:
        Channels that the network reads: ``"rgb"``, ``"bgr"`` or ``"grey"``.
    mean, scale:
        Mean in units of bytes, and factor: one number, or one for each channel. The default gives
        0 to 1.
    layout:
        Order of axes: ``"hwc"``, or ``"chw"`` as in most ONNX networks.
    source:
        Height and width of raw images; None allows any. The C kernel needs it.
    """

    axes: ClassVar[int] = 3

    size: tuple[int, int]
    resize: Literal["bilinear", "antialias", "area"] = "bilinear"
    crop: Literal["centre"] | Box | None = None
    channels: Literal["rgb", "bgr", "grey"] = "rgb"
    mean: float | tuple[float, ...] = 0.0
    scale: float | tuple[float, ...] = field(default=1 / 255)
    layout: Literal["hwc", "chw"] = "hwc"
    source: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for name in ("size", "crop", "mean", "scale", "source"):
            object.__setattr__(self, name, as_tuples(getattr(self, name)))
        for name, known in (
            ("resize", RESIZES),
            ("channels", CHANNELS),
            ("layout", ("hwc", "chw")),
        ):
            if getattr(self, name) not in known:
                raise unknown_name_error(RawDataError, name, getattr(self, name), known)
        _require_pixels("size", self.size)
        if self.source is not None:
            _require_pixels("source", self.source)
        for name in ("mean", "scale"):
            given = np.atleast_1d(getattr(self, name))
            if given.dtype.kind not in "iuf" or not np.isfinite(given).all():
                raise RawDataError(f"{name} must be finite numbers, not {getattr(self, name)!r}")
            if given.shape not in ((1,), (self.depth,)):
                raise RawDataError(f"{name} must be one number or {self.depth}, not {given.size}")
        if isinstance(self.crop, str | None) and self.crop not in (None, "centre"):
            raise RawDataError(f"crop must be 'centre', a box or None, not {self.crop!r}")
        if self.source is not None:
            self.box(*self.source)

    @property
    def depth(self) -> int:
        """Number of channels that the network reads."""
        return 1 if self.channels == "grey" else _COLOURS

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the prepared image: height, width and channels, in the order of `layout`."""
        return (*self.size, self.depth) if self.layout == "hwc" else (self.depth, *self.size)

    def box(self, height: int, width: int) -> Box:
        """Return the part to keep of an image of this size: top, left, height and width.

        Raises `RawDataError` if `crop` exceeds the image.
        """
        if self.crop is None:
            return 0, 0, height, width
        if self.crop == "centre":
            tall, wide = self.size
            kept = (
                max(1, min(height, width * tall // wide)),
                max(1, min(width, height * wide // tall)),
            )
            return (height - kept[0]) // 2, (width - kept[1]) // 2, *kept
        _require_box(self.crop)
        top, left, tall, wide = self.crop
        if top + tall > height or left + wide > width:
            raise RawDataError(f"crop {self.crop} must lie within the image, {height} x {width}")
        return self.crop

    def to_pixels(self, raw: Array) -> Array:
        """Return a raw image as bytes of `shape`: cropped, resized, channels in order.

        Raises
        ------
        UserTypeError
            The image is not uint8.
        RawDataError
            Its shape is not that of an image, or not `source`, or the crop exceeds it.
        """
        pixels = self._pixels(raw)
        top, left, height, width = self.box(*pixels.shape[:2])
        pixels = pixels[top : top + height, left : left + width]
        if pixels.shape[2] > self.depth:
            sums = pixels.astype(np.uint32) @ np.array(GREY_WEIGHTS, np.uint32)
            pixels = ((sums + (1 << _GREY_BITS - 1)) >> _GREY_BITS)[..., np.newaxis]
        elif self.channels == "bgr":
            pixels = pixels[..., ::-1]
        rows, columns = (
            _resize_matrix(self.resize, *ends)
            for ends in zip(pixels.shape[:2], self.size, strict=True)
        )
        # Whole numbers below 2^32, which float64 adds exactly in any order.
        sums = np.einsum("yh,hwc->ywc", rows, pixels.astype(np.float64), optimize=True)
        sums = np.einsum("xw,ywc->yxc", columns, sums, optimize=True)
        rounded = (sums.astype(np.uint64) + (1 << 2 * WEIGHT_BITS - 1)) >> np.uint64(
            2 * WEIGHT_BITS
        )
        result: Array = rounded.astype(np.uint8)
        return result if self.layout == "hwc" else result.transpose(2, 0, 1)

    def apply(self, raw: Array) -> Array:
        """Return ``(byte - mean) * scale`` of the resized image, float32 of `shape`."""
        return self._look_up(raw, self._real_values())

    def prepare(self, raw: Array, info: TensorInfo) -> Array:
        """Return a raw image as an input: resized, with each byte replaced by its `table` entry."""
        return self._look_up(raw, self.table(info))

    def table(self, info: TensorInfo) -> Array:
        """Return the input's value for each channel and byte, (channels, 256) of its type."""
        return quantise_array(info, self._real_values())

    def describe(self, info: TensorInfo) -> str:
        """Return a phrase on how pixels are resized and how bytes become the input's numbers."""
        table, order = self.table(info), "" if self.channels == "rgb" else f", {self.channels}"
        part = "" if self.crop is None else f"crop {self.crop}, "
        if self.crop == "centre":
            part = "crop to the centre, "
        what = f"{part}resize ({self.resize}) to {self.size[0]} x {self.size[1]}{order}"
        bytes_ = np.arange(_BYTES)
        if table.dtype == np.uint8 and (table == bytes_).all():
            return f"{what}; bytes are the input's integers as they are"
        if table.dtype == np.int8 and (table == bytes_ - 128).all():
            return f"{what}; the input's integers are byte - 128, exactly"
        alike = (table == table[0]).all()
        tables = "one table" if alike else f"{len(table)} tables"
        return f"{what}; mean, scale and quantisation are {tables} of 256 {table.dtype}"

    def random(self, generator: np.random.Generator) -> Array:
        """Return a random image of size `source`, or else of a size that the crop fits."""
        size = self.source or self.size
        if self.source is None and isinstance(self.crop, tuple):
            size = (self.crop[0] + self.crop[2], self.crop[1] + self.crop[3])
        return generator.integers(0, _BYTES, (*size, self.depth), np.uint8)

    def _real_values(self) -> Array:
        """Return the real number for each channel and byte, float32 (channels, 256)."""
        mean, scale = (
            np.broadcast_to(np.asarray(item, np.float64), self.depth)[:, np.newaxis]
            for item in (self.mean, self.scale)
        )
        return ((np.arange(_BYTES) - mean) * scale).astype(np.float32)

    def _look_up(self, raw: Array, table: Array) -> Array:
        """Return each pixel's entry in the table of its channel (rows of `table`)."""
        pixels = self.to_pixels(raw)
        axis = 0 if self.layout == "chw" else 2
        shape = [1, 1, 1]
        shape[axis] = self.depth
        found: Array = table[np.arange(self.depth).reshape(shape), pixels]
        return found

    def _pixels(self, raw: Array) -> Array:
        """Return a raw image as (height, width, channels), after checking its type and shape."""
        if raw.dtype != np.uint8:
            hint = (
                "round it: numpy.rint(255 * image).astype('uint8')" if raw.dtype.kind == "f" else ""
            )
            raise UserTypeError(f"an image must be uint8, not {raw.dtype}", hint=hint)
        pixels = raw[..., np.newaxis] if raw.ndim == Image.axes - 1 else raw
        depths = (1, _COLOURS) if self.channels == "grey" else (_COLOURS,)
        if pixels.ndim != Image.axes or not pixels.size or pixels.shape[2] not in depths:
            wanted = " or ".join(map(str, depths))
            alpha = pixels.ndim == Image.axes and pixels.shape[2] == _COLOURS + 1
            raise RawDataError(
                f"an image must be height x width x {wanted}, not {raw.shape}",
                hint="leave the fourth channel out: image[..., :3]" if alpha else "",
            )
        if self.source not in (None, pixels.shape[:2]):
            raise RawDataError(f"an image must have the size {self.source}, not {pixels.shape[:2]}")
        _require_pixels("an image", pixels.shape[:2])
        return pixels


def _resize_matrix(resize: str, source: int, size: int) -> Array:
    """Return the weights that resize an axis as a matrix (size, source)."""
    found = np.zeros((size, source))
    for row, (first, weights) in zip(found, taps(resize, source, size), strict=True):
        row[first : first + len(weights)] = weights
    return found


def _is_whole(value: Any) -> bool:
    """Return whether a value is an integer, and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def _require_pixels(name: str, value: Any) -> None:
    """Raise `RawDataError` unless a value is a height and width in the limits."""
    good = isinstance(value, tuple) and len(value) == len(("height", "width"))
    if not good or not all(_is_whole(item) and 1 <= item <= MOST_PIXELS for item in value):
        raise RawDataError(f"{name} must be height and width of 1 to {MOST_PIXELS}, not {value!r}")


def _require_box(box: Any) -> None:
    """Raise `RawDataError` unless a value is the top, left, height and width of a box."""
    good = isinstance(box, tuple) and len(box) == len(("top", "left", "height", "width"))
    if not good or not all(map(_is_whole, box)) or min(box) < 0 or min(box[2:]) < 1:
        raise RawDataError(f"crop must be top, left, height and width, not {box!r}")
