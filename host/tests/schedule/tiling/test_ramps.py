import itertools

import pytest

from matloom.schedule.tiling.ramps import ramp_down, ramp_up, split_evenly


@pytest.mark.parametrize(("first", "end", "size"), [(0, 12, 4), (3, 20, 5), (0, 1, 9), (7, 107, 9)])
def test_even_pieces_differ_by_one_at_most(first, end, size):
    pieces = split_evenly(first, end, size)
    assert [at for piece in pieces for at in range(*piece)] == list(range(first, end))
    lengths = [stop - start for start, stop in pieces]
    assert max(lengths) <= size
    assert max(lengths) - min(lengths) <= 1
    assert len(pieces) == -(-(end - first) // size)


def test_the_last_piece_becomes_smaller_and_smaller():
    assert ramp_down([(0, 64), (64, 128)], 8) == [
        (0, 64),
        (64, 96),
        (96, 112),
        (112, 120),
        (120, 128),
    ]
    assert ramp_down([(0, 7)], 4) == [(0, 7)]
    assert ramp_down([(0, 7)], 1) == [(0, 4), (4, 6), (6, 7)]


def test_the_first_piece_is_the_smallest():
    lengths = [end - start for start, end in ramp_up([(5, 69), (69, 133)], 16)]
    assert lengths == [16, 16, 32, 64]
    pieces = ramp_up([(5, 69), (69, 133)], 16)
    assert pieces[0][0] == 5
    assert all(before[1] == after[0] for before, after in itertools.pairwise(pieces))
