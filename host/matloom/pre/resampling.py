"""Weights that resize an axis of an image, in integers so that NumPy and C agree exactly."""

from typing import Any

import numpy as np
import numpy.typing as npt

#: The weights of an output pixel add up to ``1 << WEIGHT_BITS``; a byte times the weights of two
#: axes fits 32 bits.
WEIGHT_BITS = 12

#: Maximum height and width of an image.
MOST_PIXELS = 1 << 14

#: Names of the functions that weight source pixels.
RESIZES = ("bilinear", "antialias", "area")


def taps(resize: str, source: int, size: int) -> list[tuple[int, npt.NDArray[Any]]]:
    """Return the first source pixel and the weights of each output pixel of an axis.

    Pixel `i` of `size` lies at ``(i + 1/2) * source / size - 1/2`` (half-pixel centres).

    - ``bilinear``: a triangle that reaches one source pixel to each side, as in LiteRT's
    RESIZE_BILINEAR with half_pixel_centers, ONNX's Resize and OpenCV's INTER_LINEAR.
    - ``antialias``: when it reduces, a triangle that reaches one output pixel to each side, as
      Pillow's BILINEAR.
    - ``area``: the overlap of source and output pixels, as OpenCV's INTER_AREA.

    Pixels beyond the edge have no weight. Cumulative sums of weights are rounded, not each weight,
    so that the weights add up to ``1 << WEIGHT_BITS``.
    """
    found = []
    pixels = np.arange(source, dtype=np.int64)
    for place in range(size):
        if resize == "area":
            ends = np.minimum((pixels + 1) * size, (place + 1) * source)
            numbers = np.maximum(0, ends - np.maximum(pixels * size, place * source))
        else:
            reach = 2 * (max(source, size) if resize == "antialias" else size)
            distance = (2 * pixels + 1) * size - (2 * place + 1) * source
            numbers = np.maximum(0, reach - np.abs(distance))
        sums = np.cumsum(numbers)
        total = int(sums[-1])
        sums = ((sums << (WEIGHT_BITS + 1)) + total) // (2 * total)
        weights = np.diff(sums, prepend=0).astype(np.uint16)
        (kept,) = weights.nonzero()
        first, last = int(kept[0]), int(kept[-1])
        found.append((first, weights[first : last + 1]))
    return found
