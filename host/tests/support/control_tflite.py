"""TensorFlow Lite files with several subgraphs: branches and loops of quantised convolutions."""

from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import interpreter
from ai_edge_litert import schema_py_generated as schema

Op, Kind = schema.BuiltinOperator, schema.TensorType


class File:
    """A file of several subgraphs, whose int8 tensors have one scale."""

    def __init__(self, shape: Sequence[int] = (1, 4)) -> None:
        self.model, self.shape = schema.ModelT(), list(shape)
        self.model.version, self.model.description = 3, b""
        self.model.buffers, self.model.operatorCodes = [schema.BufferT()], []
        self.model.subgraphs = []

    def subgraph(
        self,
        inputs: Sequence[tuple[str, Any]],
        steps: Sequence[Any],
        outputs: Sequence[str],
        constants: Any = (),
    ) -> None:
        """Add a subgraph; tensors are (name, type), steps (operator, inputs, outputs, options)."""
        graph = schema.SubGraphT()
        self.numbers: dict[str, int] = {}
        graph.name, graph.tensors, graph.operators = b"", [], []
        for name, kind in inputs:
            self._tensor(graph, name, kind)
        for name, data in dict(constants).items():
            self._tensor(graph, name, Kind.INT32, data)
        for code, given, made, options in steps:
            for name, kind in made:
                self._tensor(graph, name, kind)
            graph.operators.append(self._operator(code, given, [name for name, _ in made], options))
        graph.inputs = [self.numbers[name] for name, _ in inputs]
        graph.outputs = [self.numbers[name] for name in outputs]
        self.model.subgraphs.append(graph)

    def _tensor(self, graph: Any, name: str, kind: Any, data: Any = None) -> None:
        tensor = schema.TensorT()
        if data is not None:
            data = np.asarray(data, data.dtype if isinstance(data, np.ndarray) else np.int32)
            kind = Kind.INT8 if data.dtype == np.int8 else Kind.INT32
        tensor.name, tensor.type, tensor.buffer = name.encode(), kind, 0
        tensor.shape = self.shape if kind in (Kind.INT8, Kind.FLOAT32) else [1]
        if kind == Kind.INT8:
            tensor.quantization = schema.QuantizationParametersT()
            scale = 0.1 if data is None else 0.0131313
            tensor.quantization.scale, tensor.quantization.zeroPoint = [scale], [0]
        if data is not None:
            tensor.shape = list(data.shape)
            held = schema.BufferT()
            held.data = np.frombuffer(data.tobytes(), np.uint8)
            self.model.buffers.append(held)
            tensor.buffer = len(self.model.buffers) - 1
        self.numbers[name] = len(graph.tensors)
        graph.tensors.append(tensor)

    def _operator(self, code: int, given: Sequence[str], made: Sequence[str], options: Any) -> Any:
        known = [item.builtinCode for item in self.model.operatorCodes]
        if code not in known:
            item = schema.OperatorCodeT()
            item.builtinCode = item.deprecatedBuiltinCode = code
            item.version = 1
            self.model.operatorCodes.append(item)
            known.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex = known.index(code)
        operator.inputs = [self.numbers[name] for name in given]
        operator.outputs = [self.numbers[name] for name in made]
        if options is not None:
            name = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, name)
            operator.builtinOptions = options
        return operator

    def content(self) -> bytes:
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def calls(kind: str, first: int, second: int) -> Any:
    """Return options that name two subgraphs."""
    options = schema.IfOptionsT() if kind == "IF" else schema.WhileOptionsT()
    if kind == "IF":
        options.thenSubgraphIndex, options.elseSubgraphIndex = first, second
    else:
        options.condSubgraphIndex, options.bodySubgraphIndex = first, second
    return options


def convolved(given: str, made: str, seed: int) -> tuple[Any, dict[str, Any]]:
    """Return a convolution with constants of its own, for the steps of a subgraph."""
    draw = np.random.default_rng(seed)
    held = {
        f"w{seed}": draw.integers(-127, 128, (4, 3, 3, 4)).astype(np.int8),
        f"b{seed}": draw.integers(-500, 500, 4).astype(np.int32),
    }
    options = schema.Conv2DOptionsT()
    options.strideH = options.strideW = options.dilationHFactor = options.dilationWFactor = 1
    return (Op.CONV_2D, [given, *held], [(made, Kind.INT8)], options), held


def layers_in_a_loop(iterations: int = 3, counted: bool = True) -> File:
    """Return a loop of a convolution, then RELU6; the file has the first count if `counted`."""
    file = File((1, 6, 5, 4))
    i, x = ("i", Kind.INT32), ("x", Kind.INT8)
    made = [("n", Kind.INT32), ("m", Kind.INT8)]
    loop = (Op.WHILE, ["i", "x"], made, calls("WHILE", 1, 2))
    after = (Op.RELU6, ["m"], [("y", Kind.INT8)], None)
    held = {"i": [0]} if counted else {}
    file.subgraph([x] if counted else [i, x], [loop, after], ["n", "y"], held)
    less = (Op.LESS, ["i", "end"], [("go", Kind.BOOL)], schema.LessOptionsT())
    file.subgraph([i, x], [less], ["go"], {"end": [iterations]})
    count = (Op.ADD, ["i", "one"], [("n", Kind.INT32)], schema.AddOptionsT())
    layer, held = convolved("x", "y", 1)
    file.subgraph([i, x], [count, layer], ["n", "y"], {"one": [1], **held})
    return file


def layers_in_branches() -> File:
    """Return one convolution or two, by a condition, then RELU6."""
    file = File((1, 6, 5, 4))
    c, x = ("c", Kind.BOOL), ("x", Kind.INT8)
    loop = (Op.IF, ["c", "x"], [("m", Kind.INT8)], calls("IF", 1, 2))
    after = (Op.RELU6, ["m"], [("y", Kind.INT8)], None)
    file.subgraph([c, x], [loop, after], ["y"])
    (one, first), (two, second), (three, third) = (
        convolved(given, made, seed)
        for given, made, seed in (("x", "y", 1), ("x", "z", 2), ("z", "y", 3))
    )
    file.subgraph([x], [one], ["y"], first)
    file.subgraph([x], [two, three], ["y"], {**second, **third})
    return file


def expected(content: bytes, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of LiteRT's reference kernels by name."""
    made = interpreter.Interpreter(
        model_content=content,
        experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_REF,
    )
    made.allocate_tensors()
    for detail in made.get_input_details():
        made.set_tensor(detail["index"], inputs[detail["name"]])
    made.invoke()
    return {each["name"]: made.get_tensor(each["index"]) for each in made.get_output_details()}
