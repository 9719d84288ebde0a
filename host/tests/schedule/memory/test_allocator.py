import random

import pytest

from matloom.arch.config import PRESETS
from matloom.schedule.memory import allocator
from matloom.schedule.memory.allocator import Allocator

CONFIG = PRESETS["small"]


@pytest.mark.parametrize("avoid_conflicts", [False, True])
@pytest.mark.parametrize("seed", [None, 7])
def test_buffers_alive_together_never_overlap(avoid_conflicts, seed):
    draw = random.Random(1)
    space = Allocator(CONFIG.spad_bytes, CONFIG, avoid_conflicts=avoid_conflicts, seed=seed)
    placed = []
    for _ in range(400):
        size, first = draw.randint(1, 9000), draw.randint(0, 300)
        last = first + draw.choice((0, 3, 80))
        address = space.place(size, first, last, high=draw.random() < 0.5)
        if address is not None:
            assert 0 <= address <= CONFIG.spad_bytes - size
            placed.append((address, address + size, first, last))
    assert len(placed) > 50
    for index, (start, end, first, last) in enumerate(placed):
        for other in placed[:index]:
            apart = end <= other[0] or other[1] <= start or last < other[2] or other[3] < first
            assert apart


def test_spread_buffers_lie_in_different_banks():
    space = Allocator(CONFIG.spad_bytes, CONFIG, avoid_conflicts=True)
    banks = {space.place(4096, 0, 9, high=False) // CONFIG.bank_bytes for _ in range(4)}
    assert banks == {0, 1, 2, 3}


def test_weights_end_where_a_quiet_bank_ends():
    """The rest of the next bank is free but busy; so the last place before it is preferred."""
    bank, capacity = CONFIG.bank_bytes, 2 * CONFIG.bank_bytes
    space = Allocator(capacity, CONFIG, avoid_conflicts=True)
    space.reserve(bank + bank // 2, bank // 2, 0, 9, high=False, reads=(0, 9))
    assert space.place(1024, 0, 9, high=True) == bank - 1024
    # An input, too, begins where one begins: the first bank is read now.
    wide = Allocator(2 * capacity, CONFIG, avoid_conflicts=True)
    wide.reserve(0, 1024, 0, 9, high=False, reads=(0, 9))
    assert wide.place(1024, 0, 9, high=False) == bank


def test_weights_avoid_the_bank_of_the_longest_reads():
    """A bank whose input is read throughout is worse than one that is read at the end."""
    bank, capacity = CONFIG.bank_bytes, 2 * CONFIG.bank_bytes
    space = Allocator(capacity, CONFIG, avoid_conflicts=True)
    space.reserve(bank, bank // 2, 0, 9, high=False, reads=(0, 9))
    space.reserve(0, bank // 2, 0, 20, high=False, reads=(10, 20))
    assert space.place(1024, 0, 9, high=True) == bank - 1024


def test_a_full_disk_is_reported():
    space = Allocator(CONFIG.spad_bytes, CONFIG, avoid_conflicts=False)
    assert space.place(CONFIG.spad_bytes, 0, 5, high=False) == 0
    assert space.place(1, 5, 6, high=True) is None
    assert space.place(CONFIG.spad_bytes, 6, 6, high=True) == 0


def test_live_ranges_of_all_lengths_are_found():
    draw = random.Random(3)
    space = Allocator(1 << 30, CONFIG, avoid_conflicts=False)
    lives = []

    def live(at):
        first = draw.randint(0, 3000)
        last = first + draw.choice((0, 1, 7, 8, 63, 64, draw.randint(0, 2000)))
        alive = [life for life in lives if life[1] <= last and first <= life[2]]
        if at is None:
            at = min(set(range(len(lives) + 1)) - {number for number, _, _ in alive})
            assert space.place(8, first, last, high=False) == 8 * at
        else:
            space.reserve(8 * at, 8, first, last, high=False, reads=(first, last))
        lives.append((at, first, last))

    for number in range(400):
        live(number)
    for _ in range(400):
        live(None)


def earliest(space, size, firsts, last, rest=0):
    """Return the address and the first slot of a placed buffer; None without room."""
    reads = (last, last)
    placed = space.place_earliest(size, firsts, last, high=False, reads=reads, rest=rest)
    return placed and (placed.start, max(placed.first, firsts.start))


def test_a_buffer_is_there_from_the_first_tick_with_room():
    space = Allocator(CONFIG.spad_bytes, CONFIG, avoid_conflicts=False)
    space.reserve(0, CONFIG.spad_bytes, 0, 5, high=False, reads=(0, 5))
    assert earliest(space, 64, range(1, 5), 9) is None
    assert earliest(space, 64, range(1, 9), 9) == (0, 6)
    assert earliest(space, 64, range(6, 8), 9) == (64, 6)
    assert space.place(CONFIG.spad_bytes, 6, 6, high=False) is None


def test_a_buffer_rests_before_its_first_tick_where_there_is_room():
    space = Allocator(128, CONFIG, avoid_conflicts=False)
    space.reserve(0, 64, 0, 8, high=False, reads=(0, 8))
    space.reserve(64, 64, 0, 7, high=False, reads=(0, 7))
    # From tick 8 on there is room: for one at tick 10 two ticks before, for one at 9 only then.
    assert earliest(space, 64, range(10, 13), 12, rest=2) == (64, 10)
    assert earliest(space, 64, range(9, 13), 12, rest=2) == (0, 9)


def test_the_earliest_tick_equals_an_exhaustive_search(seed):
    """Compared with trying every tick in order, on random buffers."""
    draw = random.Random(seed)
    for _ in range(60):
        space = Allocator(256, CONFIG, avoid_conflicts=draw.random() < 0.5)
        for _ in range(draw.randint(1, 60)):
            first = draw.randint(0, 400)
            space.place(draw.randint(1, 120), first, first + draw.randint(0, 90), high=False)
        size, first, align = draw.randint(1, 160), draw.randint(0, 300), draw.choice((8, 64))
        ticks = range(first, first + draw.randint(1, 150))
        last = ticks.stop + draw.randint(0, 20)
        tried = (
            tick
            for tick in ticks
            if space._candidates(size, space._gaps(size, space.alive(tick, last), align), align)
        )
        assert space._earliest(size, ticks, last, align)[0] == next(tried, None)


@pytest.mark.parametrize("few", [8, 1000])
@pytest.mark.parametrize("avoid_conflicts", [False, True])
def test_where_it_looks_changes_no_place(monkeypatch, few, avoid_conflicts):
    monkeypatch.setattr(allocator, "_FEW_BUFFERS", few)
    draw = random.Random(5)
    spaces = [Allocator(512, CONFIG, avoid_conflicts=avoid_conflicts) for _ in range(2)]
    places = []
    for begin in range(0, 400, 20):
        spaces[0].focus(begin, begin + 40)
        for _ in range(12):
            first = begin + draw.randint(2, 30)
            firsts = range(first, first + draw.randint(1, 20))
            last, size = firsts.stop + draw.randint(0, 8), draw.randint(1, 200)
            asked = {"high": draw.random() < 0.5, "reads": (firsts.stop, last), "rest": 2}
            places.append(spaces[0].place_earliest(size, firsts, last, **asked))
            assert places[-1] == spaces[1].place_earliest(size, firsts, last, **asked)
    assert places.count(None) > 10
    assert len(set(places)) > 100


def test_without_conflicts_to_avoid_an_address_is_the_first_or_the_last_possible(seed):
    draw = random.Random(seed)
    for _ in range(60):
        space = Allocator(512, CONFIG, avoid_conflicts=False)
        for tick in range(draw.randint(1, 20)):
            space.place(draw.randint(1, 120), tick, tick + 9, high=draw.random() < 0.5)
        size, high, align = draw.randint(1, 90), draw.random() < 0.5, draw.choice((8, 64))
        unit = max(align, 8)
        every = space._candidates(size, space._gaps(size, space.alive(9, 12), unit), unit)
        place = space.place(size, 9, 12, high=high, boundary=align)
        assert place == (None if not every else every[-1] if high else every[0])
