"""The passes over the stages of a run, in order: each a pure function, none changes a result.

Two more changes of stages are decisions by predicted cycles, not passes: rows that become channels
where an operator's stages are made (`select.fold_rows`), and tensors in 2 x 2 blocks, which the
search compares (`schedule.pairing`).
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
