"""Turns floating-point convolutions into matrix products of windows and filters."""

from dataclasses import dataclass

import numpy as np

from matloom.ir.attributes import Padding
from matloom.ir.graph import Array
from matloom.ir.shapes import IMAGE_RANK
from matloom.kernels.windows import pad, windows


@dataclass(frozen=True, kw_only=True)
class FloatWindows:
    """Operands of a convolution, whose shapes are checked.

    Members
    -------
    image, filters:
        (images, rows, columns, channels) and (output channels, rows, columns, channels), of any
        dtypes.
    elements:
        Number of products that the engine adds in one tree; each kernel row is padded with +0 to a
        multiple of it.

    Raises
    ------
    ValueError
        The shapes do not fit.
    """

    image: Array
    filters: Array
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: Padding
    elements: int

    def __post_init__(self) -> None:
        for name, array in (("x", self.image), ("filters", self.filters)):
            if array.ndim != IMAGE_RANK or not array.size:
                raise ValueError(f"{name} must have 4 axes and an element, not shape {array.shape}")
        if self.image.shape[3] != self.filters.shape[3]:
            raise ValueError(
                f"x must have {self.filters.shape[3]} channels, like the filters, not "
                f"{self.image.shape[3]}"
            )
        if min(self.shape) < 1:
            raise ValueError(
                f"filters must fit the padded input of {self.image.shape}, "
                f"not have shape {self.filters.shape}"
            )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the result: (images, rows, columns, output channels)."""
        sides = self.padding
        height, width = (
            (size + edge - step * (taps - 1) - 1) // jump + 1
            for size, edge, step, taps, jump in zip(
                self.image.shape[1:3],
                (sides.top + sides.bottom, sides.left + sides.right),
                self.dilation,
                self.filters.shape[1:3],
                self.stride,
                strict=True,
            )
        )
        return self.image.shape[0], height, width, self.filters.shape[0]

    def rows(self) -> Array:
        """Return the left matrix, with a window in each row: (positions, numbers of a window)."""
        kernel = (self.filters.shape[1], self.filters.shape[2])
        # NumPy lacks such views for some dtypes of ml_dtypes; +0 is 0 in each.
        image = np.ascontiguousarray(self.image)
        raw = pad(image.view(f"u{image.itemsize}"), self.padding, 0)
        view = windows(raw, kernel, self.stride, self.dilation)
        runs = view.reshape(-1, kernel[0], kernel[1] * image.shape[3])
        return self._pad_runs(runs).view(image.dtype)

    def columns(self) -> Array:
        """Return the right matrix, with a filter in each column: (numbers, output channels)."""
        channels, height = self.filters.shape[:2]
        return self._pad_runs(self.filters.reshape(channels, height, -1)).T

    def flat(self, residual: Array) -> Array:
        """Return a residual in the shape of the matrix product: (positions, output channels).

        Raises
        ------
        ValueError
            It does not have the shape of the convolution's result.
        """
        if residual.shape != self.shape:
            raise ValueError(f"residual must have the shape {self.shape}, not {residual.shape}")
        return residual.reshape(-1, self.shape[3])

    def _pad_runs(self, runs: Array) -> Array:
        """Pad each kernel row with +0 to a multiple of `elements`, and join the rows of a kernel.

        `runs` is (windows, kernel rows, numbers of a row), and the result (windows, numbers).
        """
        missing = -runs.shape[2] % self.elements
        return np.pad(runs, ((0, 0), (0, 0), (0, missing))).reshape(len(runs), -1)
