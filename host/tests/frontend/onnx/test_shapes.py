"""Inference of shapes survives what damaged files hold."""

import subprocess
import sys

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")

#: Infers every version of every operator, with inputs of no type; a crash ends the process.
SCRIPT = """
from onnx import defs, helper
from matloom.frontend.onnx.shapes import infer_shapes

for schema in defs.get_all_schemas_with_history():
    if schema.domain not in ("", "ai.onnx.ml"):
        continue
    for given in {0, schema.min_input, min(schema.max_input, 3)}:
        for made in {schema.min_output, min(schema.max_output, 3)}:
            ends = [f"x{at}" for at in range(given)], [f"y{at}" for at in range(made)]
            node = helper.make_node(schema.name, *ends, domain=schema.domain)
            versions = {"": 20, schema.domain: schema.since_version}
            imports = [helper.make_opsetid(*item) for item in versions.items()]
            graph = helper.make_graph([node], "net", [], [])
            infer_shapes(helper.make_model(graph, opset_imports=imports))
print("all")
"""


def test_no_operator_crashes_without_types():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.stdout == "all\n", done.stderr
