"""Functional coverage: declared points, points that instructions reach, and files."""

import random

import pytest

from matloom.arch.config import load_config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode, Region
from matloom.coverage.coverage import Coverage
from matloom.coverage.flight import Event, trace_flight
from matloom.coverage.model import declare
from matloom.coverage.points import fields_reached, waits_reached
from matloom.verification.steered import steered_streams

NANO = load_config("nano")
WINDOWS = {region: (0x8000_0000 + (region << 16), 6000) for region in Region}


def load(**values):
    return Instruction(Opcode.LOAD, {"row_bytes": 8, "rows": 1, "planes": 1, **values})


STORE = Instruction(Opcode.STORE, {"region": 2, "row_bytes": 1, "rows": 1, "planes": 1})
END = Instruction(Opcode.END)


def test_points_follow_from_the_configuration():
    nano = declare(NANO)
    assert "EXEC i8xi8 window: width last steady" in nano.all_points
    assert "POST ACC to SPAD DOUBLE: shift first withheld" in nano.all_points
    assert not any("bf16" in point or "FLOAT" in point for point in nano.all_points)
    floats = declare(load_config("nano+rows=8+weight_rows=2+float_rows=2+bf16"))
    assert "EXEC bf16: width last slow" in floats.all_points
    assert "POST SPAD to SPAD FLOAT: pre_shift 8 steady" in floats.all_points
    assert floats.excluded["EXEC bf16: line"] == "irrelevant where window is 0"


def test_each_shape_of_a_window_is_a_mode():
    wide = declare(load_config("small+rows=16+weight_rows=4+windows=2"))
    for mode in ("window", "window shape 1", "maximum window shape 3"):
        assert f"EXEC i8xi8 {mode}: width last steady" in wide.all_points
    reasons = [wide.excluded[f"EXEC i8xi8{mode}: window_shape"] for mode in ("", " window paired")]
    assert reasons == ["irrelevant where window is 0", "irrelevant in a paired window"]
    assert not any("shape" in point for point in declare(NANO).all_points)


def test_undeclared_points_have_a_reason():
    nano = declare(NANO)
    # 256 entries of four sums, a scratchpad of 32 KiB.
    assert nano.excluded["EXEC i8xi8: width 4095"] == "no more than 256 fits in the memories"
    assert nano.excluded["LOAD fill spread 0: dram_offset"] == "irrelevant in this mode"
    one_bank = declare(load_config("nano+spad_banks=1"))
    assert one_bank.excluded["EXEC i8xi8: input_addr crossing"] == "the memory is one bank"
    assert "cause" in declare(load_config("nano+counters=1")).excluded


def test_a_transfer_reaches_the_ends_of_its_memories():
    last = load(region=1, dram_offset=5992, spad_addr=NANO.spad_bytes - 8)
    found = set(fields_reached(last, NANO, WINDOWS))
    assert {"LOAD read spread 0: dram_offset last", "LOAD read spread 0: spad_addr last"} <= found
    assert not any("crossing" in point or "addr first" in point for point in found)
    across = load(region=1, dram_offset=4089, spad_addr=NANO.bank_bytes - 7)
    found = set(fields_reached(across, NANO, WINDOWS))
    assert {f"LOAD read spread 0: {base} crossing" for base in ("dram_offset", "spad_addr")} < found
    within = load(region=1, dram_offset=4088, spad_addr=NANO.bank_bytes - 8)
    assert not any("crossing" in point for point in fields_reached(within, NANO, WINDOWS))


def test_a_step_counts_where_something_is_stepped_over():
    step = {"region": 1, "spad_row_step": 32767, "row_bytes": 1}
    point = "LOAD read spread 0: spad_row_step last"
    assert point in fields_reached(load(**step, rows=2), NANO, WINDOWS)
    assert point not in fields_reached(load(**step, rows=1), NANO, WINDOWS)


def test_waits_count_at_their_ends():
    waiting = Instruction(Opcode.STORE, {**STORE.values, "wait_post": 63, "wait_load": 1})
    assert set(waits_reached(waiting)) == {
        "STORE wait_post last",
        "STORE wait_exec first",
        "STORE wait_store first",
    }


def test_instructions_under_way_together_are_pairs():
    program = [load(region=1), load(fill=1), STORE, END]
    events = [
        Event(cycle=5, issued=1),
        Event(cycle=9, done=1),
        # Issued as the first ends: not together.
        Event(cycle=9, issued=1),
        Event(cycle=12, issued=8),
        Event(cycle=20, done=8),
        Event(cycle=30, done=1),
    ]
    flight = trace_flight(program, events)
    assert flight.completed == (0, 2, 1)
    assert flight.points == {"LOAD fill then STORE", "STORE overtakes LOAD fill"}


@pytest.mark.parametrize("units", [(1, 8), (8, 1)])
def test_units_that_complete_together_do_not_overtake(units):
    """Whichever comes first in the list of units."""
    program = [{1: load(fill=1), 8: STORE}[unit] for unit in units]
    events = [Event(cycle=at, issued=unit) for at, unit in enumerate(units)]
    flight = trace_flight([*program, END], [*events, Event(cycle=9, done=1 | 8)])
    assert flight.completed == ((0, 1) if units == (1, 8) else (1, 0))
    assert not any("overtakes" in point for point in flight.points)


def test_events_of_another_program_are_refused():
    with pytest.raises(ValueError, match="instruction 0 was issued to the wrong unit"):
        trace_flight([STORE], [Event(cycle=1, issued=1)])
    with pytest.raises(ValueError, match="LOAD completed an instruction that it was never given"):
        trace_flight([STORE], [Event(cycle=1, done=1)])


def test_only_what_completed_counts():
    program = [load(region=1, spad_addr=0), load(region=1, rows=4095), END]
    coverage = Coverage(NANO)
    events = [Event(cycle=1, issued=1), Event(cycle=2, issued=1), Event(cycle=3, done=1)]
    coverage.add_run(program, events, WINDOWS, "slow")
    assert coverage.hits["LOAD read spread 0: spad_addr first slow"] == 1
    assert not coverage.hits["LOAD read spread 0: rows last slow"]
    assert not coverage.hits["END wait_load first"]
    assert (coverage.runs, coverage.instructions) == (1, 1)
    assert "LOAD read spread 0: rows last slow" in coverage.missing()


def test_files_are_merged(tmp_path):
    path = tmp_path / "coverage.json"
    first, second = Coverage(NANO), Coverage(NANO)
    first.add(["cause exec_stream", "no such point"])
    second.add(["cause exec_stream", "cause exec_setup"])
    second.runs = 3
    first.save(path)
    kept = Coverage.load(path)
    kept.merge(second)
    assert kept.hits == {"cause exec_stream": 2, "cause exec_setup": 1}
    assert kept.runs == 3
    assert kept.shares()["cause"] == (2, 10)
    with pytest.raises(ValueError, match="cannot be merged"):
        kept.merge(Coverage(load_config("small")))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "config": 3}'])
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "coverage.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="is not a coverage file"):
        Coverage.load(path)


def test_streams_are_steered_to_shapes_of_windows(seed):
    config = load_config("small+rows=16+weight_rows=4+windows=2")
    coverage = Coverage(config)
    points = {n: f"EXEC i8xi8 window shape {n}: height last steady" for n in (1, 2, 3)}
    coverage.add([point for point in coverage.model.all_points if point not in points.values()])
    for steered in steered_streams(coverage, seed):
        windows = [
            each
            for each in steered.stream.instructions
            if each.opcode is Opcode.EXEC and each.window and not each.paired
        ]
        reached = {each.window_shape for each in windows} & set(points)
        coverage.add([points[shape] for shape in reached])
    assert not coverage.missing()


def test_streams_are_steered_to_what_is_missing(seed):
    coverage = Coverage(NANO)
    wanted = random.Random(seed).sample(coverage.model.points["field"], 12)
    coverage.add([point for point in coverage.model.all_points if point not in wanted])
    left = set(wanted)
    for steered in steered_streams(coverage, seed):
        for instruction in steered.stream.instructions:
            sizes = {each: (0, len(data)) for each, data in steered.stream.regions.items()}
            windows = {Region.PROGRAM: (0, len(steered.stream.commands)), **sizes}
            left -= {f"{p} {steered.stall}" for p in fields_reached(instruction, NANO, windows)}
        coverage.add([point for point in wanted if point not in left])
    assert not left


def test_no_stream_where_nothing_is_missing():
    coverage = Coverage(NANO)
    coverage.add(list(coverage.model.all_points))
    assert list(steered_streams(coverage, 0)) == []
