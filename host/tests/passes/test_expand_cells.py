"""LSTM_CELL as operators of int16: the same results, state and calls; when it stays a cell."""

from dataclasses import replace

import numpy as np
import pytest
from single_operators.lstm import LstmFile

from matloom import frontend
from matloom.arch.config import load_config
from matloom.ir.graph import Op
from matloom.ir.verify import verify
from matloom.kernels.interpreter import initial_state, interpret, next_state
from matloom.passes.expand_cells import expand_cells

CONFIG = load_config("nano+i16xi8+products=4+curves=1")
FORMS = {
    "usual": LstmFile(),
    "one step": LstmFile(steps=1, batch=3),
    "time first": LstmFile(batch=2, steps=4, time_major=True),
    "no limit": LstmFile(clip=0.0, steps=9),
    "low limit": LstmFile(clip=0.7, steps=9),
    "wide state": LstmFile(power=-9, hidden_zero=17),
    "widest state": LstmFile(power=0, clip=0.0, steps=5),
    "narrow state": LstmFile(power=-15, hidden_zero=0),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(2))
def test_results_and_state_stay(form, seed):
    """The kernel of LSTM_CELL equals TensorFlow Lite Micro's, as its own tests show."""
    graph = frontend.load(FORMS[form].content(seed))
    expanded = expand_cells(graph, CONFIG)
    verify(expanded, "expand_cells")
    assert Op.LSTM_CELL not in {node.op for node in expanded.nodes}
    assert "int32" not in {expanded.tensors[node.outputs[0]].dtype for node in expanded.nodes}
    random, (given,), (made,) = np.random.default_rng(seed), graph.inputs, graph.outputs
    state = initial_state(graph)
    for _ in range(3):
        array = random.integers(-128, 128, graph.tensors[given].shape, np.int8)
        wanted = interpret(graph, {given: array, **state})
        found = interpret(expanded, {given: array, **state})
        after = next_state(expanded, found)
        state = next_state(graph, wanted)
        assert np.array_equal(found[made], wanted[made])
        assert all(np.array_equal(after[each], state[each]) for each in state)


@pytest.mark.parametrize("change", ["products=3", "curves=0", "i8xi8"])
def test_a_cell_stays_where_the_engine_lacks_a_part(change):
    name = "nano+products=4+curves=1" if change == "i8xi8" else f"nano+i16xi8+curves=1+{change}"
    graph = frontend.load(FORMS["usual"].content(0))
    assert expand_cells(graph, load_config(name)) is graph


def test_a_cell_stays_where_its_sums_are_results():
    graph = frontend.load(FORMS["usual"].content(0))
    cell = next(node for node in graph.nodes if node.op is Op.LSTM_CELL)
    graph = replace(graph, outputs=(*graph.outputs, cell.inputs[1]))
    assert expand_cells(graph, CONFIG) is graph
