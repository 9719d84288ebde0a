"""Chooses the tile before which POST fills each table of exponentials."""

from matloom.arch.softmax_cycles import fill_cycles
from matloom.schedule.plan import Plan
from matloom.schedule.segment import Segment


def early_fills(segment: Segment, plan: Plan) -> dict[int, int]:
    """Return, by slot, the stage of SOFTMAX whose table is filled before that slot's tile.

    The array works meanwhile: enough tiles follow to cover the fill, none of them of a SOFTMAX.
    """
    firsts: dict[int, int] = {}
    for number, slot in enumerate(plan.slots):
        if segment.stages[slot.stage].whole_rows:
            firsts.setdefault(slot.stage, number)
    found = {}
    for index, at in firsts.items():
        left = fill_cycles(segment.config)
        while at > 0 and left > 0:
            before = plan.slots[at - 1]
            if segment.stages[before.stage].whole_rows:
                break
            at -= 1
            left -= plan.tilings[before.stage].cycles[before.number]
        found[at] = index
    return found
