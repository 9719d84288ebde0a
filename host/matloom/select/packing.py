"""Lets neighbouring output positions share the array's columns, if there are few channels."""

import math

from matloom.arch.config import Config
from matloom.cost import step_cycles
from matloom.select.window import Window

#: Positions share several blocks of columns if that cuts cycles to this fraction or less.
_FILLED_BLOCKS = 0.8


def pack_positions(
    window: Window, channels: int, columns: int, config: Config, *, rows_follow: bool
) -> tuple[Window, int]:
    """Return the window to compute, and how many neighbouring positions to compute at once.

    Positions of a layer with fewer `channels` than the array has `columns` may use different
    columns at the same time. Their number divides the width of the window. If each output depends
    on only one position, and `rows_follow` (rows of the output are contiguous), rows may be joined,
    so that the window has fewer and longer rows.
    """
    pack = positions_per_block(window, channels, columns, config)
    if pack > 1 or not (window.is_pointwise and rows_follow):
        return window, pack
    for rows in range(2, window.out_height + 1):
        if window.out_height % rows == 0:
            joined = window.join_rows(rows)
            pack = positions_per_block(joined, channels, columns, config)
            if pack > 1:
                return joined, pack
    return window, 1


def positions_per_block(window: Window, channels: int, columns: int, config: Config) -> int:
    """Return how many adjacent output positions should share blocks of the array's columns.

    Each position lengthens the run of bytes by its distance from the first, so sharing pays if
    neighbours overlap, or if the run leaves rows of the array idle. Positions that fill several
    blocks, such as two of 24 channels, must overlap and save more, because tiles of several blocks
    start later.
    """
    run, shift = window.kernel_width * window.depth, window.stride_x * window.depth
    positions = window.out_width * window.out_height

    def cycles(pack: int) -> float:
        """Return the estimated cycles if `pack` positions share a block of columns."""
        blocks = -(-(run + (pack - 1) * shift) // config.rows) * -(-pack * channels // columns)
        return blocks * step_cycles(positions // pack, config)

    def fastest(maximum: int) -> int:
        """Return the fastest number of positions up to `maximum` that divides the width."""
        packs = (pack for pack in range(1, maximum + 1) if window.out_width % pack == 0)
        return min(packs, key=cycles)

    one_block = fastest(max(1, columns // channels))
    if shift >= run:
        return one_block
    more = fastest(max(1, columns // math.gcd(columns, channels)))
    return more if cycles(more) <= _FILLED_BLOCKS * cycles(one_block) else one_block
