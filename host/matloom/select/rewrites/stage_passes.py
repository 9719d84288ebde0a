"""The passes over the stages of a run, in order: each a pure function, none changes a result.

Other layouts of tensors are decisions by predicted cycles, not passes: rows become channels where
an operator's stages are made (`select.layout.row_folding`), and the search compares the layouts
that `schedule.choices.layouts` lists.
"""

from collections.abc import Callable

from matloom.select.rewrites.elide_copies import elide_copies
from matloom.select.rewrites.fuse_tables import fuse_tables
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.rewrites.store_slices import store_slices

__all__ = ["STAGE_PASSES"]

STAGE_PASSES: tuple[Callable[[StagedRun], StagedRun], ...] = (
    fuse_tables,
    store_slices,
    elide_copies,
)
