"""Exploration: a Pareto front, the same for any number of workers, and resumable."""

import json
from dataclasses import replace
from functools import partial
from operator import attrgetter

import pytest

from matloom.arch.config import load_config
from matloom.cli.room import board_part
from matloom.tools import explore, explore_page
from matloom.tools.confirmation import Confirmation
from matloom.tools.explore import Exploration, ExploredPoint, engine_space, front_of, text_of
from matloom.tools.explore_page import to_html
from matloom.workers import processes

SERIAL = partial(processes, 1)


def point(tables, cycles, text="a"):
    uses = {"tables": tables}
    return ExploredPoint(text=text, uses=uses, mhz=100.0, cycles={"n": cycles} if cycles else {})


def test_nothing_beats_a_point_of_the_front():
    points = [point(9, 10), point(5, 20), point(6, 30), point(5, 25), point(2, 90), point(1, 0)]
    assert front_of(points) == [points[0], points[1], points[4]]


def guess(text, networks, memory):
    """Return cycles derived from the name: fewer with more cells."""
    fields = dict(each.split("=") for each in text.split("+")[1:])
    cells = int(fields["rows"]) * int(fields["columns"])
    return {network: 1_000_000 // cells + int(fields["lanes"]) for network in networks}, ""


@pytest.fixture
def exploration(tmp_path, monkeypatch):
    monkeypatch.setattr(explore, "cycles_of", guess)

    def make(name="points.jsonl", seed=0):
        part = board_part("ulx3s-85f", None)
        journal = tmp_path / name
        return Exploration(
            part=part, networks=("digits",), memory="ulx3s-85f", journal=journal, seed=seed
        )

    return make


def test_an_exploration_goes_on_where_it_stopped(exploration, monkeypatch):
    whole = exploration("whole").run(40, SERIAL)
    first = exploration("parts")
    first.run(16, SERIAL)
    with first.journal.open("a") as journal:
        journal.write('3\n{"digest": 1}\n{"digest": "cut')
    seen = []
    monkeypatch.setattr(explore, "cycles_of", lambda *a, **k: seen.append(a) or guess(*a, **k))
    assert exploration("parts").run(40, SERIAL)[:10] == whole[:10]
    again = exploration("whole")
    seen.clear()
    assert again.run(40, SERIAL) == whole
    assert seen == []


def test_every_point_fits_and_is_another(exploration):
    found = exploration().run(80, SERIAL)
    assert len({each.text for each in found}) == len(found) == 80
    part = board_part("ulx3s-85f", None)
    assert all(each.uses["tables"] <= part.capacity["tables"] for each in found)
    assert all(each.mhz <= part.clock_mhz for each in found)


def test_neighbours_of_the_front_make_it_better(exploration, monkeypatch):
    """With equal numbers of points, searching near the front beats random draws."""
    guided = front_of(exploration("guided").run(160, SERIAL))
    monkeypatch.setattr(explore, "_RANDOM_SHARE", 2.0)
    drawn = front_of(exploration("drawn").run(160, SERIAL))

    def area(front):
        """Return the area between a front and a corner that it dominates."""
        corner, total = 1e5, 0.0
        for each, after in zip(front, [*front[1:], None], strict=True):
            until = 100.0 if after is None else after.milliseconds
            total += (until - each.milliseconds) * (corner - each.tables)
        return total

    assert area(guided) > area(drawn)


def test_the_page_and_the_file_have_the_front(exploration):
    one = exploration()
    found = one.run(40, SERIAL)
    best = front_of(found)
    page = to_html(one, found)
    assert all(each.text in page for each in best)
    shown = json.loads(json.dumps(one.as_dict(found)))
    assert [each["text"] for each in shown["front"]] == [each.text for each in best]
    unable = [replace(each, cycles={}, why="no") for each in found]
    assert "No engine can run" in to_html(one, unable)


def test_measurements_go_on_where_they_stopped(exploration, tmp_path):
    """The board's area is derived from the engine's; a failed measurement has a reason."""
    one = exploration()
    best = front_of(one.run(40, SERIAL))
    asked = []

    def tool(text):
        asked.append(text)
        soft = one.engine_search.candidate(text).soft_columns
        tables = one.engine_search.model.predict(load_config(text), "ecp5", soft).tables
        return {"why": "no room"} if text == best[-1].text else {"tables": tables * 1.1}

    journal = tmp_path / "synthesis.jsonl"
    found = Confirmation(exploration=one, kind="synthesis", tool=tool, journal=journal)
    measured = found.measure(best[:2], SERIAL)
    # The smallest engines first.
    order = sorted(best[:2], key=attrgetter("tables"))
    order += sorted(best[2:], key=attrgetter("tables"))
    assert asked == [each.text for each in order[:2]]
    with journal.open("a") as lines:
        lines.write('{"key": 3}\n[')
    measured = found.measure(best, SERIAL)
    assert asked == [each.text for each in order]
    for each in measured[:-1]:
        board = one.engine_search.whole_board(0)
        expected = (each.tables - board) * 1.1 + board
        assert each.measured["tables"] == pytest.approx(expected, rel=0.002)
        assert each.measured["error"] == pytest.approx(each.tables / expected - 1, abs=0.002)
        assert f"{each.measured['tables']:,} tables by synthesis" in to_html(one, measured)
    assert measured[-1].measured == {"synthesis why": "no room"}
    assert "no room" in to_html(one, measured)


def test_networks_travel_with_tasks(exploration, tmp_path, monkeypatch):
    """Workers on other machines have no such files."""
    seen = []
    monkeypatch.setattr(explore, "cycles_of", lambda *a, **k: seen.append(k) or guess(*a, **k))
    (tmp_path / "net.tflite").write_bytes(b"content")
    one = replace(exploration(), networks=(str(tmp_path / "net.tflite"), "digits"))
    one.run(1, SERIAL)
    assert list(seen[0]["networks"].values()) == [b"content", "digits"]


def test_texts_are_configurations_or_refused():
    assert len(engine_space()) > 2000
    assert text_of(engine_space()[0]).startswith("small+rows=4+columns=4+lanes=4+bus_bits=32")


@pytest.mark.parametrize(
    ("number", "rounded"),
    [(1, 1), (1.01, 1.5), (14_717, 15_000), (16_000, 20_000), (2_600, 3_000), (99, 100)],
)
def test_lines_of_an_axis_are_at_round_numbers(number, rounded):
    assert explore_page._round_up(number) == pytest.approx(rounded)


@pytest.mark.slow
def test_workers_find_the_same(tmp_path):
    part = board_part("ulx3s-85f", None)

    def run(name, workers):
        journal = tmp_path / name
        one = Exploration(part=part, networks=("digits",), memory=None, journal=journal)
        return one.run(12, partial(processes, workers))

    assert run("one", 1) == run("two", 2)
