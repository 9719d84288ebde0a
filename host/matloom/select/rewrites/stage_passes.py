"""The passes over the stages of a run, in order: pure functions that never change a result.

Alternative layouts are not passes, because predicted cycles decide on them: row folding when an
operator's stages are built (`select.row_folds`), the layouts in `schedule.choices.layouts`
during the search.
"""

from collections.abc import Callable

from matloom.select.rewrites.channel_tables import channel_tables
from matloom.select.rewrites.copy_tables import copy_tables
from matloom.select.rewrites.elide_copies import elide_copies, elide_panel_copies
from matloom.select.rewrites.fuse_tables import fuse_tables
from matloom.select.rewrites.image_planes import image_planes
from matloom.select.rewrites.padded_sums import padded_sums
from matloom.select.rewrites.pooled_results import pooled_results
from matloom.select.rewrites.read_parts import read_parts
from matloom.select.rewrites.rescaled_maxima import rescaled_maxima
from matloom.select.rewrites.result_sums import result_sums
from matloom.select.rewrites.scaled_maxima import scaled_maxima
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.rewrites.store_slices import store_slices

STAGE_PASSES: tuple[Callable[[StagedRun], StagedRun], ...] = (
    channel_tables,
    scaled_maxima,
    rescaled_maxima,
    padded_sums,
    result_sums,
    image_planes,
    fuse_tables,
    copy_tables,
    pooled_results,
    read_parts,
    store_slices,
    elide_copies,
    elide_panel_copies,
)
