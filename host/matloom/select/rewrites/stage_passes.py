"""The passes over the stages of a run, in order: pure functions that never change a result.

Alternative layouts are not passes, because predicted cycles decide on them: row folding when an
operator's stages are built (`select.row_folds`), the layouts in `schedule.choices.layouts`
during the search.
"""

from collections.abc import Callable

from matloom.select.rewrites.channel_tables import tabulate_channel_functions
from matloom.select.rewrites.copy_tables import fuse_tables_into_copies
from matloom.select.rewrites.elide_copies import elide_copies, elide_panel_copies
from matloom.select.rewrites.fuse_tables import fuse_tables
from matloom.select.rewrites.image_planes import interleave_image_planes
from matloom.select.rewrites.padded_sums import drop_addend_padding
from matloom.select.rewrites.panels_ahead import hoist_panel_copies
from matloom.select.rewrites.pooled_results import fuse_max_pooling
from matloom.select.rewrites.read_parts import read_slices_in_place
from matloom.select.rewrites.rescaled_maxima import fuse_rescaling_into_maxima
from matloom.select.rewrites.result_sums import fuse_additions
from matloom.select.rewrites.scaled_maxima import fuse_scaled_maxima
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.rewrites.store_slices import store_slices

STAGE_PASSES: tuple[Callable[[StagedRun], StagedRun], ...] = (
    tabulate_channel_functions,
    fuse_scaled_maxima,
    fuse_rescaling_into_maxima,
    drop_addend_padding,
    fuse_additions,
    interleave_image_planes,
    fuse_tables,
    fuse_tables_into_copies,
    fuse_max_pooling,
    read_slices_in_place,
    store_slices,
    elide_copies,
    elide_panel_copies,
    hoist_panel_copies,
)
