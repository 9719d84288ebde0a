"""ONNX networks with branches and loops of quantised convolutions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

INT8, INT64, BOOL = onnx.TensorProto.INT8, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
SHAPE = [1, 2, 6, 6]
#: Types and shapes of values, by name.
Kinds = Mapping[str, tuple[Any, list[int]]]


class Piece:
    """A graph under construction, with its constants."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def conv(self, given: str, made: str) -> None:
        """Add an int8 convolution with its own weights."""
        draw = np.random.default_rng(len(made) + ord(made[0]))
        own: dict[str, Any] = {
            "s": np.float32(0.03),
            "z": np.int8(3),
            "t": np.float32(0.00271828),
            "n": np.int8(0),
        }
        own["w"] = draw.integers(-127, 128, (2, 2, 3, 3), np.int8)
        self.constants |= {f"{made}_{key}": data for key, data in own.items()}
        names = [f"{made}_{key}" for key in ("s", "z", "w", "t", "n", "s", "z")]
        self.add("QLinearConv", [given, *names], made, pads=[1, 1, 1, 1])

    def add(self, op: str, given: list[str], made: str, **attributes: Any) -> None:
        self.nodes.append(helper.make_node(op, given, [made], **attributes))

    def graph(self, inputs: Kinds, outputs: Kinds) -> Any:
        """Return the GraphProto; inputs and outputs are types and shapes by name."""
        given, made = (
            [helper.make_tensor_value_info(name, *kind) for name, kind in side.items()]
            for side in (inputs, outputs)
        )
        held = [
            numpy_helper.from_array(np.asarray(data), name) for name, data in self.constants.items()
        ]
        return helper.make_graph(self.nodes, self.name, given, made, held)


IMAGE: tuple[Any, list[int]] = (INT8, SHAPE)
FLAG: tuple[Any, list[int]] = (BOOL, [])
COUNT: tuple[Any, list[int]] = (INT64, [])


def whole(piece: Piece, inputs: Kinds, outputs: Kinds) -> bytes:
    graph = piece.graph(inputs, outputs)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    return bytes(model.SerializeToString())


def choice() -> bytes:
    """Return a network that runs one convolution or two, depending on a condition."""
    one, two, main = Piece("one"), Piece("two"), Piece("main")
    one.conv("x", "a")
    two.conv("x", "bb")
    two.conv("bb", "ccc")
    branches = {
        "then_branch": one.graph({}, {"a": IMAGE}),
        "else_branch": two.graph({}, {"ccc": IMAGE}),
    }
    main.add("If", ["p"], "m", **branches)
    main.conv("m", "y")
    return whole(main, {"x": IMAGE, "p": FLAG}, {"y": IMAGE})


def loop(
    iterations: int, wanted: int | None = None, *, stacked: bool = False, other: str = ""
) -> bytes:
    """Return a network that repeats a convolution until the sum of its values is `wanted`."""
    body, main = Piece("body"), Piece("main")
    body.conv("v", "w")
    if other:
        body.add(other, ["w"], "u")
    if wanted is None:
        body.add("Identity", ["c"], "d")
    else:
        body.constants |= {"axes": np.arange(4), "wanted": np.int32(wanted)}
        body.add("Cast", ["w"], "wide", to=onnx.TensorProto.INT32)
        body.add("ReduceSum", ["wide", "axes"], "sum", keepdims=0)
        body.add("Less", ["sum", "wanted"], "d")
    ends = {"d": FLAG, "w": IMAGE}
    if stacked:
        body.add("Identity", ["w"], "each")
        ends["each"] = IMAGE
    graph = body.graph({"i": COUNT, "c": FLAG, "v": IMAGE}, ends)
    main.constants["n"] = np.int64(iterations)
    made = ["m", "all"][: 1 + stacked]
    main.nodes.append(helper.make_node("Loop", ["n", "", "x"], made, body=graph))
    main.conv("m", "y")
    outputs = {"y": IMAGE, "all": (INT8, [iterations, *SHAPE])}
    return whole(main, {"x": IMAGE}, dict(list(outputs.items())[: 1 + stacked]))


def open_loop(begin: str = "", *, ends: bool = False, captured: bool = False) -> bytes:
    """Return a network whose input `n` is the largest number of iterations of a convolution.

    `ends` stops a loop early, by the sum of its values; with `captured` an iteration reads the
    network's input as well.
    """
    body, main = Piece("body"), Piece("main")
    body.conv("v", "w")
    made = "w"
    if captured:
        scales = {"s": np.float32(0.03), "z": np.int8(3)}
        body.constants |= scales
        names = ["x", "s", "z", "w", "s", "z", "s", "z"]
        body.nodes.append(helper.make_node("QLinearAdd", names, ["u"], domain="com.microsoft"))
        made = "u"
    if ends:
        body.constants |= {"axes": np.arange(4), "wanted": np.int32(400)}
        body.add("Cast", [made], "wide", to=onnx.TensorProto.INT32)
        body.add("ReduceSum", ["wide", "axes"], "sum", keepdims=0)
        body.add("Less", ["sum", "wanted"], "d")
    graph = body.graph(
        {"i": COUNT, "c": FLAG, "v": IMAGE}, {"d" if ends else "c": FLAG, made: IMAGE}
    )
    main.conv("x", "a")
    main.nodes.append(helper.make_node("Loop", ["n", begin, "a"], ["m"], body=graph))
    main.conv("m", "y")
    flags = {begin: FLAG} if begin else {}
    return whole(main, {"x": IMAGE, "n": COUNT, **flags}, {"y": IMAGE})


OPEN_LOOPS = {
    "count": open_loop(),
    "count and condition": open_loop("p"),
    "early end": open_loop(ends=True),
    "value from outside": open_loop(captured=True),
}


def scan(axis: int = 0, backward: int = 0, made_axis: int = 0) -> bytes:
    """Return a network that scans images along an axis: a convolution of each, and their sum."""
    body, main = Piece("body"), Piece("main")
    body.conv("v", "w")
    body.constants |= {"s": np.float32(0.03), "z": np.int8(3)}
    names = ["u", "s", "z", "w", "s", "z", "s", "z"]
    add = helper.make_node("QLinearAdd", names, ["sum"], domain="com.microsoft")
    body.nodes.append(add)
    graph = body.graph({"u": IMAGE, "v": IMAGE}, {"sum": IMAGE, "w": IMAGE})
    attributes: dict[str, Any] = {
        **{"num_scan_inputs": 1, "scan_input_axes": [axis], "scan_input_directions": [backward]},
        **{"scan_output_axes": [made_axis], "scan_output_directions": [backward]},
    }
    scanned, made = list(SHAPE), list(SHAPE)
    scanned.insert(axis % 5, 3)
    made.insert(made_axis % 5, 3)
    main.nodes.append(
        helper.make_node("Scan", ["x", "all"], ["m", "each"], body=graph, **attributes)
    )
    main.conv("m", "y")
    ends = {"x": IMAGE, "all": (INT8, scanned)}, {"y": IMAGE, "each": (INT8, made)}
    return whole(main, *ends)


def inputs(content: bytes, seed: int) -> tuple[dict[str, Any], list[Any]]:
    """Return random inputs, and the outputs of ONNX Runtime."""
    draw = np.random.default_rng(seed)
    given: dict[str, Any] = {"x": draw.integers(-128, 128, SHAPE).astype(np.int8)}
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for value in session.get_inputs()[1:]:
        if value.name == "p":
            given["p"] = np.array(bool(seed % 2))
        else:
            given[value.name] = draw.integers(-128, 128, value.shape).astype(np.int8)
    return given, session.run(None, given)


#: Networks that are written out, and how many convolutions then run on the engine.
NETWORKS = {
    "If": (choice(), 4),
    "Loop": (loop(3), 4),
    "Loop, all iterations": (loop(3, stacked=True), 4),
    "Loop that may end": (loop(3, wanted=400), 4),
    "Scan": (scan(), 4),
    "Scan, other axes": (scan(-1, 1, 2), 4),
}
