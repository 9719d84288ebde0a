"""Layouts of tensors on chip that a search tries in place of dense ones."""

from collections.abc import Callable
from typing import NamedTuple

from matloom.arch.config import Config
from matloom.schedule.banding import in_bands
from matloom.schedule.pairing import in_blocks
from matloom.schedule.segment import Segment

__all__ = ["LAYOUTS", "Layout"]


class Layout(NamedTuple):
    """Another layout of some tensors.

    Members
    -------
    make:
        Returns the segment with it, None where no tensor can have it.
    name, without:
        What it is called, and what stays without it.
    """

    make: Callable[[Segment, Config], Segment | None]
    name: str
    without: str


#: Each is tried on the best so far: what reads bands may make blocks.
LAYOUTS = (
    Layout(in_blocks, "2 x 2 blocks", "rows"),
    Layout(in_bands, "bands of rows", "whole images"),
)
