"""Opens sessions of ONNX Runtime whose sums do not saturate, and has it optimise models.

This file imports nothing from Matloom, because `interpreters.py` loads it by its path.
"""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_EXACT_SUMS = "session.x64quantprecision"
#: Part of ONNX Runtime 1.32's error if operators share a constant that it rewrites for a kernel.
_SHARED_CONSTANT_ERROR = "replace the existing tensor"
_REAL = "DequantizeLinear"
#: uint8 and int8, as in `onnx.TensorProto.DataType`.
_BYTES = (2, 3)


def onnx_session(content: bytes) -> Any:
    """Return a session of ONNX Runtime on the CPU, with all its optimisations.

    One thread gives floating-point sums one order. On a CPU without VNNI, kernels for uint8 data
    and int8 weights add pairs of products in 16 bits, which saturate, so other kernels are
    requested if the operators have them. With these, ONNX Runtime refuses models whose operators
    share constants of bytes, so each operator gets its own.

    Raises
    ------
    RuntimeError
        It refuses the model.
    """
    return _open_session(content, [{_EXACT_SUMS: "1"}, {_EXACT_SUMS: "0"}])


def optimise_onnx(content: bytes, form: str) -> bytes:
    """Return the model optimised by ONNX Runtime in a form: "basic", "own" or "integers".

    Parameters
    ----------
    form:
        "basic": as execution providers see it. "own": with integer operators, but without
        changes for a processor's memory layout (`ORT_ENABLE_ALL`), which affect no result.
        "integers": operators between DequantizeLinear and QuantizeLinear of int8 become integer
        operators, too, as on ARM; on x86 ONNX Runtime leaves many in floating point.

    Raises
    ------
    RuntimeError
        It refuses the model.
    """
    import onnxruntime

    entries = [{_EXACT_SUMS: "1"}, {_EXACT_SUMS: "0"}]
    if form == "integers":
        entries = [{_EXACT_SUMS: "0", "session.qdqisint8allowed": "1"}]
    levels = onnxruntime.GraphOptimizationLevel
    level = levels.ORT_ENABLE_BASIC if form == "basic" else levels.ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "optimised.onnx")
        where = str(path)
        _open_session(
            content, entries, optimized_model_filepath=where, graph_optimization_level=level
        )
        return path.read_bytes()


def _open_session(content: bytes, entries: Sequence[dict[str, str]], **settings: Any) -> Any:
    """Return a session with the first of `entries` that ONNX Runtime accepts as configuration.

    Raises RuntimeError if it accepts none.
    """
    refused = ""
    for entry in entries:
        for own in (False, True):
            try:
                model = _with_own_constants(content) if own else content
                return _session(model, entry, settings)
            # ONNX Runtime has its own exception classes, without a common base.
            except Exception as error:
                refused = plain_error(error)
            if _SHARED_CONSTANT_ERROR not in refused:
                break
    raise RuntimeError(refused)


def _session(content: bytes, entry: dict[str, str], settings: dict[str, Any]) -> Any:
    """Return an ONNX Runtime session with one thread, and with these options and config entries."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for name, value in settings.items():
        setattr(options, name, value)
    for name, value in entry.items():
        options.add_session_config_entry(name, value)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _with_own_constants(content: bytes) -> bytes:
    """Return a model in which no two operators share a constant of bytes, or its DequantizeLinear.

    If two shared a DequantizeLinear, ONNX Runtime would copy that, but not its constant.
    """
    import onnx

    model = onnx.ModelProto()
    model.ParseFromString(content)
    graph = model.graph
    held = {each.name: each for each in graph.initializer if each.data_type in _BYTES}
    producers = {name: node for node in graph.node for name in node.output}
    seen: set[str] = set()
    nodes: list[Any] = []

    def own(name: str) -> str:
        """Return a name of the same value that nothing reads yet; add a copy if necessary."""
        source = producers.get(name)
        copied = source is not None and source.op_type == _REAL and source.input[0] in held
        if name not in seen or not (name in held or copied):
            seen.add(name)
            return name
        new = f"{name} of reader {len(seen)}"
        seen.add(new)
        copy = graph.initializer.add() if source is None else onnx.NodeProto()
        copy.CopyFrom(held[name] if source is None else source)
        if source is None:
            copy.name = new
            return new
        copy.name, copy.input[:], copy.output[:] = new, map(own, source.input), [new]
        nodes.append(copy)
        return new

    for node in list(graph.node):
        node.input[:] = [own(name) for name in node.input]
        nodes.append(node)
    ordered = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    graph.ClearField("node")
    graph.node.extend(ordered)
    return bytes(model.SerializeToString())


#: Prefixes before the reason in ONNX Runtime's messages, in this order.
_NOISE = (
    re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : "),
    re.compile(r"^Exception during initialization: "),
    re.compile(r"^Non-zero status code returned while running .*? Status Message: "),
    # File and line, the signature of a function, and the failed condition in C++.
    re.compile(r"^/\S+:\d+ .* was false\. "),
    re.compile(r"^/\S+:\d+ "),
    # Address of a Python object.
    re.compile(r" object at 0x[0-9a-f]+"),
)


def plain_error(error: Exception) -> str:
    """Return ONNX Runtime's error message in one line, without codes, nodes or source locations."""
    line = " ".join(str(error).split())
    for noise in _NOISE:
        line = noise.sub("", line)
    return line
