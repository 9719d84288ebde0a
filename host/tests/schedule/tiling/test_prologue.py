import itertools

import numpy as np
import pytest

from matloom.schedule.tiling.prologue import GROUPS, panels, rectangles


@pytest.mark.parametrize(("steps", "thinnest"), [(8, 2), (7, 2), (16, 2), (32, 2), (9, 3), (1, 4)])
def test_panels_cover_the_reduction(steps, thinnest):
    edges = panels(steps, thinnest)
    assert [step for panel in edges for step in range(*panel)] == list(range(steps))
    assert all(end - first >= min(thinnest, steps) for first, end in edges)
    assert len(edges) == 1 or edges[0] == (0, thinnest), "the first is waited for"


def test_panels_of_a_long_reduction_become_thicker():
    lengths = [end - first for first, end in panels(64, 2)][:-1]
    assert lengths == sorted(lengths)
    assert lengths[-1] >= 8


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 7, 8])
def test_rectangles_make_each_output_once(blocks, first):
    group = 5
    made = np.zeros((GROUPS * group, blocks), int)
    for part in rectangles(group, blocks, first=first):
        made[slice(*part.rows), slice(*part.blocks)] += 1
    assert (made == 1).all()


@pytest.mark.parametrize("blocks", [1, 3, 8])
def test_an_output_has_the_same_accumulator_in_all_panels(blocks):
    group, places = 6, []
    for first in (True, False):
        pinned_at = {}
        for part in rectangles(group, blocks, first=first):
            outputs = itertools.product(range(*part.blocks), range(*part.rows))
            for entry, output in enumerate(outputs, part.prologue_sums.entry):
                pinned_at[output] = part.prologue_sums.half, entry
        assert len(set(pinned_at.values())) == GROUPS * group * blocks
        places.append(pinned_at)
    assert places[0] == places[1]
    assert max(entry for _half, entry in places[0].values()) == GROUPS // 2 * group * blocks - 1


def test_groups_take_turns_with_the_halves():
    halves = [part.prologue_sums.half for part in rectangles(4, 8, first=False)]
    assert halves == [0, 1, 0, 1]


def test_outputs_of_the_first_panels_grow_as_a_square():
    sides = [(part.rows, part.blocks) for part in rectangles(16, 4, first=True)]
    assert sides[:4] == [
        ((0, 16), (0, 2)),
        ((16, 32), (0, 2)),
        ((0, 16), (2, 4)),
        ((16, 32), (2, 4)),
    ]
    assert all(blocks == (0, 4) for _rows, blocks in sides[4:])
