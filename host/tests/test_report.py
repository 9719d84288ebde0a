"""Reports: operators that share a completion time, and the totals."""

from dataclasses import replace

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.memory import REFERENCE_MEMORY, Memory
from matloom.compiler import compile_network
from matloom.data.streaming import streaming_network
from matloom.device.driver import Counters
from matloom.ir.attributes import Attributes
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.program import LayerInfo
from matloom.report import make_report
from matloom.terminal.tables import as_text
from matloom.tools.explain import explain

LAST = 63


@pytest.fixture(scope="module")
def program():
    """Return a network of 66 operators on the engine."""
    tensors = {
        number: Tensor(
            name=f"t{number}",
            shape=(1, 16),
            dtype="int8",
            quantisation=Quantisation(scale=(0.5 + number / 100,), zero_point=(0,)),
        )
        for number in range(67)
    }
    nodes = tuple(
        Node(
            op=Op.RELU,
            inputs=(number,),
            outputs=(number + 1,),
            attributes=Attributes(),
            index=number,
        )
        for number in range(66)
    )
    graph = Graph(name="long", inputs=(0,), outputs=(66,), tensors=tensors, nodes=nodes)
    return compile_network(graph, PRESETS["small"], check="none")


def test_another_memory_than_predicted_is_named(program):
    assert not any("memory" in line for line in make_report(program, "rtl", []).lines())
    same = make_report(program, "rtl", [], ran_on=REFERENCE_MEMORY)
    assert (same.memory, same.ran_on) == ("reference", "reference")
    assert not any("memory" in line for line in same.lines())
    other = make_report(program, "rtl", [], ran_on=Memory(bytes_per_cycle=2, read_latency=50))
    assert other.lines()[-1] == (
        "  predicted for memory reference, ran on 2 bytes per cycle, latencies 50 and 8, 16 bursts"
    )


def test_rows_sum_to_the_total(program):
    assert PRESETS["small"].last_timestamp == LAST
    # Ten cycles for each operator, 40 for those that share the last slot, 3 for the end.
    timestamps = {timestamp: 10 * timestamp for timestamp in range(1, LAST)} | {
        LAST: 10 * LAST + 30
    }
    total = 10 * LAST + 33
    report = make_report(
        program, "rtl", [Counters(values={"cycles": total}, timestamps=timestamps)]
    )
    assert [layer.cycles for layer in report.layers] == [10] * 62 + [43, None, None, None]
    assert sum(layer.cycles or 0 for layer in report.layers) == report.cycles == total
    assert [layer.together for layer in report.layers] == [False] * 62 + [True] * 4
    predicted = sum(layer.predicted_cycles for layer in report.layers)
    assert predicted == sum(layer.predicted_cycles for layer in program.layers)
    rows = as_text([report.table()]).splitlines()
    assert sum("together" in row for row in rows) == 4
    assert any("43 together" in row for row in rows)
    sentence = (
        "4 operators share a slot of the completion-time table, so only the sum of their cycles is "
        "known: timestamps=128 has more slots"
    )
    assert f"  {sentence}" in make_report(program, "rtl", []).lines()
    assert sentence in explain(program)


def test_predicted_rows_mark_joint_times(program):
    text = as_text(explain(program))
    assert text.count("together") == 4
    joint = sum(layer.predicted_cycles for layer in program.layers if layer.timestamp == LAST)
    assert f"{joint:,} together" in text


def test_runs_share_the_last_slot(program):
    """A second command buffer adds its cycles to the slot that both use."""
    half = program.steps[0]
    twice = replace(program, steps=(half, half))
    counters = [
        Counters(values={"cycles": 20}, timestamps={LAST: 20}),
        Counters(values={"cycles": 35}, timestamps={LAST: 30}),
    ]
    report = make_report(twice, "rtl", counters)
    assert [layer.cycles for layer in report.layers if layer.together] == [55, None, None, None]


def test_no_share_is_claimed_of_unknown_operators(program):
    layer = LayerInfo(name="state", operator="SVDF", where="host", reason="SVDF has no kernel here")
    mixed = replace(program, layers=(*program.layers, layer))
    assert mixed.uncounted == ("SVDF",)
    text = as_text(explain(mixed))
    assert "without those of SVDF, which are unknown" in " ".join(text.split())
    assert "%" not in "".join(line for line in text.splitlines() if " MACs" in line)
    state = make_report(mixed, "model", []).layers[-1]
    assert state.cells()[2] == "unknown"


def test_state_is_part_of_it():
    program = compile_network(streaming_network(1, layers=1), PRESETS["nano"], check="none")
    report = make_report(program, "model", [])
    assert report.shared_slots == ""
    assert report.state == {"v0": 8, "v1": 48, "v2": 36}
    assert report.as_dict()["state"] == report.state
    assert "state: 92 bytes (v0 8, v1 48, v2 36)" in str(report)
