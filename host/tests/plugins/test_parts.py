"""Parts of an ONNX graph whose operators leave inputs or outputs out."""

import pytest

from matloom.frontend.onnx.loaded import LoadedNodes
from matloom.plugins.parts import Wiring, _operators_between, _require_closed

helper = pytest.importorskip("onnx").helper


def test_absent_values_connect_no_operators():
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r"], ["", "h"]),
        helper.make_node("Clip", ["h", "", "high"], ["y"]),
    ]
    held = [helper.make_tensor(name, 1, [1], [1.0]) for name in ("w", "r", "high")]
    places = {"": 0}
    graph = LoadedNodes(helper.make_graph(nodes, "two", [], [], held), places)
    first, second = graph.operators
    assert (first.outputs, second.inputs) == ((0, places["h"]), (places["h"], -1, places["high"]))
    assert graph.constants == {places[name] for name in ("w", "r", "high")}
    wiring = Wiring(
        operators=graph.operators, constants=graph.constants, outputs=graph.outputs, values={}
    )
    assert _operators_between(wiring, {places["x"]}, [places["y"]], 0) == (0, 1)
    # The second operator reads no value that the first one hides.
    _require_closed(wiring, (0,), {places["h"]}, 0)
