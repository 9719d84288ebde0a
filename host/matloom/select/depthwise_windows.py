"""Chooses the sliding window of a depthwise convolution that streams the fewest vectors."""

from collections.abc import Iterable

from matloom.arch.config import WINDOW_TAPS, Config
from matloom.select.shapes import WindowShape, window_shapes
from matloom.select.sliding import LONGEST_LINE, LONGEST_SKIP, SlidingWindow, as_sliding_window
from matloom.select.spaced_windows import SpacedWindow, spaced_windows
from matloom.select.window import Window

#: Windows that slide over the channels of an output block.
DepthwiseWindow = SlidingWindow | SpacedWindow


def depthwise_window(window: Window, input_zero: int, config: Config) -> DepthwiseWindow | None:
    """Return the sliding window that streams the fewest vectors for a depthwise convolution.

    The result is None if no window of the engine can compute it.
    """
    shapes = window_shapes(config)
    if max(window.kernel_height, window.kernel_width) <= WINDOW_TAPS:
        shapes = shapes[:1]
    found: Iterable[DepthwiseWindow] = (
        *(
            _sliding_window(window, input_zero, each, config)
            for each in shapes
            if _can_slide(window)
        ),
        *(found for each in shapes for found in spaced_windows(window, input_zero, each, config)),
    )
    return min(found, key=lambda each: streamed_vectors(each, window), default=None)


def streamed_vectors(nest: DepthwiseWindow, window: Window) -> int:
    """Return about how many vectors a block of output channels of an image streams."""
    return nest.steps * nest.vectors_per_step(window.out_height, window.out_width)


def widest_tile(nest: DepthwiseWindow) -> int | None:
    """Return the maximum width of a tile of this window, in outputs; None if it is not limited."""
    window = as_sliding_window(nest)
    return None if window is None else (LONGEST_LINE - window.shape.taps) // window.stride_x + 1


def _can_slide(window: Window) -> bool:
    """Return whether a sliding window of adjacent taps can compute a depthwise convolution."""
    return (
        window.depth > 1
        and window.dilation_y == window.dilation_x == 1
        and max(window.stride_y, window.stride_x) <= LONGEST_SKIP + 1
    )


def _sliding_window(
    window: Window, input_zero: int, shape: WindowShape, config: Config
) -> SlidingWindow:
    """Return the window of the given shape that slides over a depthwise convolution's input."""
    return SlidingWindow(
        shape=shape,
        in_width=window.in_width,
        depth=window.depth,
        kernel_rows=window.kernel_height,
        kernel_width=window.kernel_width,
        y_step=window.stride_y,
        stride_x=window.stride_x,
        pad_top=window.pad_top,
        pad_left=window.pad_left,
        pad_value=input_zero,
        oc_step=config.columns,
    )
