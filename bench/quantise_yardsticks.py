"""Other quantisers, which `bench/quantise.py` compares with: ai-edge-quantizer, ONNX Runtime's."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from matloom import frontend
from matloom.ir.graph import Array, Graph, Op

#: Calibrations of ONNX Runtime's static quantiser.
METHODS = ("MinMax", "Entropy", "Percentile")

#: That quantiser wants a signature, which our files do not have, and a name for each tensor.
_AI_EDGE = """
import sys
import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_quantizer import quantizer, recipe

source, data, target = sys.argv[1:]
model = schema.ModelT.InitFromPackedBuf(open(source, "rb").read(), 0)
graph = model.subgraphs[0]
for number, tensor in enumerate(graph.tensors):
    if not tensor.name:
        tensor.name = f"tensor {number}".encode()
        # One that only keeps the numbers of others in order has no data to look at.
        tensor.shape = [0] if model.buffers[tensor.buffer].data is None else tensor.shape
signature = schema.SignatureDefT()
signature.signatureKey, signature.subgraphIndex = "serving_default", 0
signature.inputs, signature.outputs = [], []
for side, numbers in ((signature.inputs, graph.inputs), (signature.outputs, graph.outputs)):
    for number in numbers:
        entry = schema.TensorMapT()
        entry.name, entry.tensorIndex = graph.tensors[number].name.decode(), number
        side.append(entry)
model.signatureDefs = [signature]
builder = flatbuffers.Builder(1024)
builder.Finish(model.Pack(builder), b"TFL3")
with np.load(data) as file:
    samples = [{file["name"].item(): sample} for sample in file["samples"]]
made = quantizer.Quantizer(bytes(builder.Output()), recipe.static_wi8_ai8())
made.quantize(made.calibrate({"serving_default": samples}), serialize_to_path=target)
"""


def quantise_with_ai_edge(python: str, graph: Graph, samples: Array) -> Graph:
    """Return the network as ai-edge-quantizer makes it; `python` is that of its environment."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "float.tflite").write_bytes(frontend.write(graph)[1])
        tensor = graph.tensors[graph.inputs[0]]
        np.savez(folder / "data.npz", name=tensor.name, samples=samples)
        (folder / "run.py").write_text(_AI_EDGE)
        words = [python, "run.py", "float.tflite", "data.npz", "made.tflite"]
        # Without PYTHONPATH: the environment has its own packages.
        subprocess.run(words, cwd=folder, check=True, capture_output=True, env={})
        return frontend.load(folder / "made.tflite")


def logits_of(graph: Graph) -> Graph:
    """Return a network without the SOFTMAX at its end."""
    from dataclasses import replace

    last = graph.nodes[-1]
    if last.op is not Op.SOFTMAX:
        return graph
    return replace(graph, nodes=graph.nodes[:-1], outputs=last.inputs[:1])


def run_many(content: bytes, samples: Array) -> Array:
    """Return the output of a TensorFlow Lite file for each sample, computed by LiteRT."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    # Without XNNPACK, which rounds otherwise.
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(
        model_content=content, num_threads=1, experimental_op_resolver_type=plain
    )
    interpreter.allocate_tensors()
    (given,), (made,) = interpreter.get_input_details(), interpreter.get_output_details()
    results = []
    for sample in samples:
        interpreter.set_tensor(given["index"], sample)
        interpreter.invoke()
        results.append(interpreter.get_tensor(made["index"])[0])
    return np.array(results)


def quantise_with_onnx_runtime(graph: Graph, method: str, calibration: Array, test: Array) -> Array:
    """Return the results for `test` of the network that ONNX Runtime's static quantiser makes.

    Weights have a scale for each channel. Without graph optimisation: kernels of some processors
    would let sums overflow, which is no fault of the quantiser.
    """
    import onnxruntime
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    graph = logits_of(graph)
    name = graph.tensors[graph.inputs[0]].name

    class Reader(CalibrationDataReader):
        """Source of the calibration samples, one after another."""

        def __init__(self) -> None:
            self._rest: Iterator[Array] = iter(calibration)

        def get_next(self) -> dict[str, Array] | None:
            """Return the next sample as an input by name; None after the last."""
            sample = next(self._rest, None)
            return None if sample is None else {name: sample}

    with tempfile.TemporaryDirectory() as folder:
        source, target = (Path(folder) / each for each in ("float.onnx", "made.onnx"))
        source.write_bytes(frontend.write(graph, ".onnx")[1])
        quantize_static(
            source,
            target,
            Reader(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=getattr(CalibrationMethod, method),
        )
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(
            target.read_bytes(), options, providers=["CPUExecutionProvider"]
        )
    return np.array([session.run(None, {name: sample})[0] for sample in test])
