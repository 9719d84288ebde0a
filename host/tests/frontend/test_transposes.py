"""Networks of the collections: the engine transposes only what a file itself transposes."""

import pytest

from matloom import frontend
from matloom.ir.graph import Op
from matloom.passes import run_passes

#: Files with TRANSPOSE operators of their own that no pass removes, and how many.
OWN = {"mobilenet_v2_quantized_1x3x224x224.tflite": 1, "non_stream.tflite": 24}
#: Sizes of dimensions that files leave open.
DIMS = {"micro_kws_m_static_qdq.onnx": {"unk__68": 1}}


def transposes(path):
    """Return the number of TRANSPOSE operators of the file, and of its graph after all passes."""
    graph = frontend.load(path, None, DIMS.get(path.name))
    return [
        sum(node.op is Op.TRANSPOSE for node in each.nodes) for each in (graph, run_passes(graph))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["models", "wild", "untuned", "onnx"])
def test_only_of_the_files(name, folder_of):
    paths = [
        path for path in sorted(folder_of(name).rglob("*")) if path.suffix in (".onnx", ".tflite")
    ]
    assert paths
    found = {path.name: transposes(path) for path in paths}
    left = {name: count for name, (_, count) in found.items() if count}
    assert left == {name: count for name, count in OWN.items() if name in found}
    assert all(found[name][0] >= count for name, count in left.items())
