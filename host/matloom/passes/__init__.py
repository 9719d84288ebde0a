"""The passes over the graph, in order: pure functions that never change a network's results."""

import os
from collections.abc import Callable

from matloom.ir.graph import Graph
from matloom.ir.verify import verify
from matloom.passes.clip_windows import clip_windows
from matloom.passes.combine_moves import combine_moves
from matloom.passes.combine_transposes import combine_transposes
from matloom.passes.drop_identities import drop_identities
from matloom.passes.drop_unused import drop_unused
from matloom.passes.fold_constants import fold_constants
from matloom.passes.fold_selections import fold_selections
from matloom.passes.fold_transposes import fold_transposes
from matloom.passes.fuse_padding import fuse_padding
from matloom.passes.gather_channels import gather_channels
from matloom.passes.merge_equal import merge_equal
from matloom.passes.order_branches import order_branches
from matloom.passes.slice_gathers import slice_gathers
from matloom.passes.tabulate import tabulate

__all__ = ["PASSES", "run_passes"]

PASSES: tuple[Callable[[Graph], Graph], ...] = (
    slice_gathers,
    tabulate,
    fuse_padding,
    clip_windows,
    merge_equal,
    drop_identities,
    fold_transposes,
    combine_moves,
    drop_unused,
    fold_selections,
    gather_channels,
    fold_constants,
    combine_transposes,
    order_branches,
)


def run_passes(graph: Graph) -> Graph:
    """Return the graph after all passes; with ``MATLOOM_VERIFY=1`` check it after each."""
    for change in PASSES:
        graph = change(graph)
        if os.environ.get("MATLOOM_VERIFY") == "1":
            verify(graph, change.__name__)
    return graph
