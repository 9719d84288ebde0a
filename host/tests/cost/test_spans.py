"""The spans of a real program add up to the prediction, and to the chip's count."""

from collections import Counter
from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest

from matloom import frontend
from matloom.arch.config import load_config
from matloom.arch.isa import UNITS, Opcode
from matloom.arch.machine import Machine
from matloom.compiler import compile_network
from matloom.cost import HANDOVER, Cause, predict, spans
from matloom.cost.dispatch import WAIT_FIELDS
from matloom.data.digits import NETWORK
from matloom.device.open import open_device
from matloom.program.instruction_table import unpack_all
from matloom.runtime import load


@pytest.fixture(scope="module", params=["nano", "reference"])
def timeline(request):
    """Return a machine, the instructions of digits, and their spans."""
    machine = Machine(config=load_config(request.param))
    program = compile_network(frontend.load(NETWORK), machine.config, check="none")
    step = program.steps[0]
    instructions = list(unpack_all(program.commands(step)))
    return machine, instructions, spans(instructions, machine)


def test_spans_make_the_totals_of_the_prediction(timeline):
    machine, instructions, found = timeline
    total = predict(instructions, machine)
    assert [span.index for span in found] == list(range(len(instructions) - 1))
    assert max(span.done for span in found) + HANDOVER == total.cycles
    busy = Counter()
    for span in found:
        busy[span.unit.name.lower()] += span.end - span.start
        mark = instructions[span.index].values.get("timestamp", 0)
        assert total.timestamps.get(mark, span.done) == span.done
    load = busy.pop("load")
    assert all(total.busy[name] == count for name, count in busy.items())
    # Beats of commands between those of a LOAD are in its span, not in its work.
    assert total.busy["load"] <= load <= 1.2 * total.busy["load"]


def test_spans_respect_units_and_waits(timeline):
    _machine, instructions, found = timeline
    for unit in UNITS:
        own = [span for span in found if span.unit is unit]
        assert all(before.end <= after.start for before, after in pairwise(own))
        for span in own:
            assert span.start <= span.end <= span.done
            for other, name in zip(UNITS, WAIT_FIELDS, strict=True):
                count = instructions[span.index].values.get(name, 0)
                if count:
                    earlier = [each for each in found[: span.index] if each.unit is other]
                    assert earlier[-count].done + HANDOVER <= span.start


def test_a_cause_ends_just_before_the_start(timeline):
    _machine, instructions, found = timeline
    for span in found:
        if span.cause is Cause.OPERANDS and span.unit is not Opcode.LOAD:
            assert found[span.awaited].done + HANDOVER == span.start
            assert found[span.awaited].unit is not span.unit
        if span.cause is Cause.BUSY and span.unit is not Opcode.LOAD:
            assert found[span.awaited].end == span.start
            assert found[span.awaited].unit is span.unit
        if span.cause is Cause.PARAMETERS:
            assert span.unit is Opcode.POST
            assert instructions[span.index].values["oc_blocks"]
    assert {span.cause for span in found} >= {Cause.DISPATCH, Cause.BUSY, Cause.OPERANDS}


@pytest.mark.slow
def test_spans_agree_with_what_the_chip_counts():
    """Within the tolerance of predictions for whole networks (docs/performance.md)."""
    config = load_config("nano")
    graph = frontend.load(NETWORK)
    program = compile_network(graph, config, check="none")
    step = program.steps[0]
    machine = Machine(config=config)
    found = spans(list(unpack_all(program.commands(step))), machine)
    (number,) = graph.inputs
    given = np.zeros(graph.tensors[number].shape, np.int8)
    with closing(open_device("rtl", config, memory_bytes=1 << 24)) as device:
        session = load(program, device=device)
        session.run({graph.tensors[number].name: given})
        counters = session.report().counters
        session.close()
    assert max(span.done for span in found) == pytest.approx(counters["cycles"], rel=0.03)
    streamed = sum(span.end - span.start for span in found if span.unit is Opcode.EXEC)
    assert streamed == pytest.approx(counters["exec_stream"], rel=0.03)
    for unit, before in ((Opcode.LOAD, machine.load_latency), (Opcode.POST, 0), (Opcode.STORE, 0)):
        # The chip counts a LOAD from its request on.
        own = [range(span.start - before, span.done) for span in found if span.unit is unit]
        busy = len(set().union(*own))
        assert busy == pytest.approx(counters[f"{unit.name.lower()}_busy"], rel=0.05, abs=4), unit
