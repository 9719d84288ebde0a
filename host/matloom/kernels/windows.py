"""Windows of an image, one for each output position."""

import numpy as np

from matloom.ir.attributes import Padding
from matloom.ir.graph import Array


def pad(image: Array, padding: Padding, value: float) -> Array:
    """Return an image (batch, height, width, channels) with a border of `value`."""
    batch, height, width, channels = image.shape
    tall = padding.top + height + padding.bottom
    wide = padding.left + width + padding.right
    if (tall, wide) == (height, width):
        return image
    # Several times faster than np.pad.
    padded = np.full((batch, tall, wide, channels), value, image.dtype)
    padded[:, padding.top :, padding.left :][:, :height, :width] = image
    return padded


def windows(
    image: Array,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
) -> Array:
    """Return a view of an image's windows, one for each output position.

    The view is (batch, rows, columns, kernel height, kernel width, channels).
    """
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(image, reach, axis=(1, 2))
    view = view[:, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]
    return np.moveaxis(view, 3, 5)
