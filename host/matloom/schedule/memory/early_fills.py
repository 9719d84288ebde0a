"""Chooses tiles before which POST fills lookup tables, early enough that EXEC hides the time.

This concerns the tables of exponentials, and those for sums of results.
"""

from matloom.arch.config import Config
from matloom.arch.isa import Source
from matloom.arch.post_latency import post_latency
from matloom.arch.softmax_cycles import fill_cycles
from matloom.schedule.plan import Plan
from matloom.schedule.segment import Segment
from matloom.select.stage import Stage


def early_fills(segment: Segment, plan: Plan) -> dict[int, tuple[int, ...]]:
    """Return the stages whose lookup tables are filled before a tile, by the tile's slot.

    A slot is a place in the order of tiles.

    The fill overlaps with the tiles from this slot to the first tile of the stage. These are as
    many as the fill takes, or fewer if the plan begins later or an earlier stage uses the same
    table.
    """
    firsts: dict[int, int] = {}
    for number, slot in enumerate(plan.slots):
        stage = segment.stages[slot.stage]
        if stage.is_softmax or stage.adds_results:
            firsts.setdefault(slot.stage, number)
    found: dict[int, tuple[int, ...]] = {}
    for index, at in firsts.items():
        stage = segment.stages[index]
        left = _fill_cycles(stage, segment.config)
        if stage.adds_results and _hides_fill(segment, plan, at, left):
            continue
        while at > 0 and left > 0:
            before = plan.slots[at - 1]
            if _use_same_table(segment.stages[before.stage], stage):
                break
            at -= 1
            left -= plan.tilings[before.stage].cycles[before.number]
        found[at] = (*found.get(at, ()), index)
    return found


def _hides_fill(segment: Segment, plan: Plan, slot_index: int, fill: int) -> bool:
    """Return whether EXEC of a tile takes longer than the previous tile's POST and a table fill.

    `fill` is the duration of the fill in cycles.
    """
    slot, before = plan.slots[slot_index], plan.slots[max(0, slot_index - 1)]
    vectors = plan.tilings[before.stage].output_bytes[before.number] // segment.config.columns
    return plan.tilings[slot.stage].cycles[slot.number] > vectors + fill


def _fill_cycles(stage: Stage, config: Config) -> int:
    """Return the cycles in which POST fills the table of a stage."""
    if stage.is_softmax:
        return fill_cycles(config)
    latency = post_latency({"source": Source.SPAD}, config) + config.acc_update_latency
    return config.table_rows + latency


def _use_same_table(before: Stage, stage: Stage) -> bool:
    """Return whether two stages use the same table: that of exponentials, or that of bytes."""
    return before.table is not None and before.is_softmax == stage.is_softmax
