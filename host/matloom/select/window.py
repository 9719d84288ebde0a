"""Shapes of windows that slide over images, and loops that process their taps one by one."""

import itertools
from dataclasses import dataclass, replace

from matloom.select.loop_nest import LoopNest
from matloom.select.stage import OutputRegion


@dataclass(frozen=True, kw_only=True)
class Window:
    """Shape of a sliding-window operator: NHWC input and output, strides, padding.

    `pad_top` and `pad_left` are the padding before the first row and column; the padding after the
    last follows from the output's size.
    """

    images: int
    in_height: int
    in_width: int
    depth: int
    out_height: int
    out_width: int
    kernel_height: int
    kernel_width: int
    stride_y: int = 1
    stride_x: int = 1
    dilation_y: int = 1
    dilation_x: int = 1
    pad_top: int = 0
    pad_left: int = 0

    @property
    def is_column(self) -> bool:
        """Whether input, output and kernel are one position wide, but more than one high."""
        return self.in_width == self.out_width == self.kernel_width == 1 < self.in_height

    @property
    def is_pointwise(self) -> bool:
        """Whether each output position depends on the input at that position alone."""
        kernel = self.kernel_height == self.kernel_width == self.stride_y == self.stride_x == 1
        same_size = (self.in_height, self.in_width) == (self.out_height, self.out_width)
        return kernel and same_size and not self.pad_top | self.pad_left

    @property
    def covers_image(self) -> bool:
        """Whether there is a single output position, whose taps are all positions of the image."""
        kernel, image = (self.kernel_height, self.kernel_width), (self.in_height, self.in_width)
        single = self.out_height == self.out_width == 1
        return kernel == image and single and not self.pad_top | self.pad_left

    def join_rows(self, rows: int) -> "Window":
        """Return a window on the same bytes in which `rows` rows of the image form one.

        The window must be pointwise.
        """
        height, width = self.in_height // rows, self.in_width * rows
        return replace(self, in_height=height, in_width=width, out_height=height, out_width=width)

    @property
    def transposed(self) -> "Window":
        """The window with rows and columns swapped."""
        return replace(
            self,
            in_height=self.in_width,
            in_width=self.in_height,
            out_height=self.out_width,
            out_width=self.out_height,
            kernel_height=self.kernel_width,
            kernel_width=self.kernel_height,
            stride_y=self.stride_x,
            stride_x=self.stride_y,
            dilation_y=self.dilation_x,
            dilation_x=self.dilation_y,
            pad_top=self.pad_left,
            pad_left=self.pad_top,
        )


def covering_regions(
    window: Window, width: int, post: dict[str, int], max_width: int | None = None
) -> tuple[OutputRegion, ...]:
    """Return regions that cover all output positions, at most `max_width` positions wide each."""
    count = 1 if max_width is None else -(-width // max_width)
    edges = [width * at // count for at in range(count + 1)]
    return tuple(
        OutputRegion(first_row=0, end_row=window.out_height, first_x=first, end_x=end, post=post)
        for first, end in itertools.pairwise(edges)
    )


def tap_loop_nest(
    window: Window,
    pad_value: int,
    *,
    blocks: int,
    oc_step: int,
    maximum: bool = False,
    fixed: bool = False,
) -> LoopNest:
    """Return the loop nest in which each kernel tap has reduction steps of its own."""
    return LoopNest(
        kernel_rows=window.kernel_height,
        kernel_row_step=window.dilation_y,
        kernel_cols=window.kernel_width,
        kernel_col_step=window.dilation_x * window.depth,
        blocks=blocks,
        oc_step=oc_step,
        x_step=window.stride_x * window.depth,
        y_step=window.stride_y,
        pad_top=window.pad_top,
        pad_left_bytes=window.pad_left * window.depth,
        pad_value=pad_value,
        maximum=maximum,
        weights_fixed=fixed,
    )


def pointwise_window(images: int, size: tuple[int, int], depth: int) -> Window:
    """Return a 1x1 window on images of a given height and width."""
    return Window(
        images=images,
        in_height=size[0],
        in_width=size[1],
        depth=depth,
        out_height=size[0],
        out_width=size[1],
        kernel_height=1,
        kernel_width=1,
    )
