"""Small quantised ONNX networks, and what ONNX Runtime makes of them.

Its sums do not saturate (`onnx_session`).
"""

from typing import Any

import numpy as np

from matloom.ir.graph import Array
from matloom.kernels.onnx_sessions import onnx_session, optimise_onnx

__all__ = [
    "QuantisedFile",
    "attention",
    "chain",
    "expected",
    "in_qdq",
    "inputs",
    "line",
    "of_integers",
]
__all__ += ["residual"]


_MATMUL = "QLinearMatMul"


class QuantisedFile:
    """A chain of quantised operators between QuantizeLinear and DequantizeLinear.

    Scales have many digits, as in real networks; ratios of short ones are exact halves too often.
    """

    def __init__(self, shape: list[int], dtype: type, seed: int = 0) -> None:
        import onnx

        self.random, self.dtype = np.random.default_rng(seed), dtype
        self.constants: dict[str, Array] = {}
        self.nodes: list[Any] = []
        self.input = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
        #: The names of the scale and the zero point of the last tensor.
        self.quantised = self.quantisation(0.0313717, 7)
        self.last = self.add("QuantizeLinear", ["x", *self.quantised])

    def constant(self, array: Array) -> str:
        """Add a constant; return its name."""
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def quantisation(self, scale: float, zero: int) -> list[str]:
        """Add a scale and a zero point, stated for int8; return their names."""
        zero += 128 if self.dtype == np.uint8 else 0
        return [self.constant(np.array(scale, np.float32)), self.constant(self.dtype(zero))]

    def add(self, op: str, inputs: list[str], domain: str = "", **attributes: Any) -> str:
        """Add an operator; return its output."""
        import onnx

        name = f"t{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op, inputs, [name], domain=domain, **attributes))
        return name

    def weighted(
        self,
        op: str,
        shape: tuple[int, ...],
        scales: float | list[float],
        made: tuple[float, int],
        *,
        bias: int | None = None,
        **attributes: Any,
    ) -> None:
        """Add a layer whose weights have a scale for each channel."""
        given = self.quantised
        weights = self.random.integers(-127, 128, shape, np.int8)
        zeros = np.zeros(np.shape(scales), np.int8)
        held = [weights, np.array(scales, np.float32), zeros]
        self.quantised = self.quantisation(*made)
        names = [self.last, *given, *map(self.constant, held), *self.quantised]
        if bias is not None:
            names.append(self.constant(self.random.integers(-bias, bias, shape[0], np.int32)))
        self.last = self.add(op, names, **attributes)

    def move(self, op: str, *more: str, **attributes: Any) -> None:
        """Add an operator that keeps scale and zero point."""
        self.last = self.add(op, [self.last, *more], **attributes)

    def sum(self, other: str, quantised: list[str], made: tuple[float, int]) -> None:
        """Add an earlier tensor to the current one."""
        names = [self.last, *self.quantised, other, *quantised]
        self.quantised = self.quantisation(*made)
        self.last = self.add("QLinearAdd", [*names, *self.quantised], "com.microsoft")

    def product(
        self, other: str, quantised: list[str], made: tuple[float, int], **attributes: Any
    ) -> None:
        """Multiply the current tensor by an earlier one; attributes are those of QGemm."""
        names = [self.last, *self.quantised, other, *quantised]
        self.quantised = self.quantisation(*made)
        op, domain, bias = ("QGemm", "com.microsoft", [""]) if attributes else (_MATMUL, "", [])
        self.last = self.add(op, [*names, *bias, *self.quantised], domain, **attributes)

    def function(self, op: str, made: tuple[float, int], **attributes: Any) -> None:
        """Add an operator of ONNX Runtime's own, such as QLinearAveragePool."""
        names = [self.last, *self.quantised]
        self.quantised = self.quantisation(*made)
        self.last = self.add(op, [*names, *self.quantised], "com.microsoft", **attributes)

    def join(self, other: str, quantised: list[str], made: tuple[float, int], axis: int) -> None:
        """Concatenate an earlier tensor with the current one."""
        parts = [self.last, *self.quantised, other, *quantised]
        self.quantised = self.quantisation(*made)
        names = [*self.quantised, *parts]
        self.last = self.add("QLinearConcat", names, "com.microsoft", axis=axis)

    def content(self, opset: int = 17) -> bytes:
        """Return the file, for a version of ONNX's operators."""
        import onnx

        y = self.add("DequantizeLinear", [self.last, *self.quantised])
        made = onnx.helper.make_tensor_value_info(y, onnx.TensorProto.FLOAT, None)
        given = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in self.constants.items()]
        graph = onnx.helper.make_graph(self.nodes, "net", [self.input], [made], given)
        imports = [
            onnx.helper.make_opsetid("", opset),
            onnx.helper.make_opsetid("com.microsoft", 1),
        ]
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
        content: bytes = onnx.shape_inference.infer_shapes(model).SerializeToString()
        return content


def attention(dtype: type, tokens: int = 9, heads: int = 2, depth: int = 5) -> bytes:
    """Return products of queries, keys and values (1, tokens, heads * depth), without SOFTMAX."""
    width = heads * depth
    network = QuantisedFile([1, tokens, width], dtype)
    given = network.last, network.quantised
    parts = []
    for zero, places in ((3, [0, 2, 1, 3]), (-7, [0, 2, 3, 1]), (0, [0, 2, 1, 3])):
        network.last, network.quantised = given
        network.weighted(_MATMUL, (width, width), 0.0131137, (0.4127391, zero))
        network.move("Reshape", network.constant(np.array([1, tokens, heads, depth])))
        network.move("Transpose", perm=places)
        parts.append((network.last, network.quantised))
    (network.last, network.quantised), keys, values = parts
    network.product(*keys, (5.137131, -128))
    network.product(*values, (97.371717, 4))
    network.move("Transpose", perm=[0, 2, 1, 3])
    network.move("Reshape", network.constant(np.array([1, tokens, width])))
    return network.content()


def chain(dtype: type) -> bytes:
    """Return convolutions, a depthwise one, a pool, a flattening and a product."""
    network = QuantisedFile([1, 3, 12, 10], dtype)
    around: dict[str, Any] = {"bias": 900, "pads": [1, 0, 1, 2]}
    network.weighted("QLinearConv", (8, 3, 3, 3), 0.0113411, (0.4127391, -3), **around)
    network.move("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    apart: dict[str, Any] = {"group": 8, "strides": [2, 1]}
    network.weighted("QLinearConv", (8, 1, 3, 3), 0.0131137, (0.3071913, 5), **apart)
    same: dict[str, Any] = {"auto_pad": b"SAME_UPPER"}
    network.weighted("QLinearConv", (6, 8, 1, 1), 0.0091137, (0.4391173, -128), **same)
    network.move("Flatten")
    network.weighted("QLinearMatMul", (36, 5), 0.0171137, (1.1313737, 0))
    return network.content()


def line(dtype: type) -> bytes:
    """Return convolutions over one dimension: with gaps, depthwise, and with a step."""
    network = QuantisedFile([1, 3, 23], dtype)
    network.weighted("QLinearConv", (8, 3, 5), 0.0113411, (0.4127391, -3), bias=900, pads=[4, 1])
    network.weighted("QLinearConv", (8, 1, 3), 0.0131137, (0.3071913, 5), group=8, dilations=[2])
    same: dict[str, Any] = {"auto_pad": b"SAME_LOWER", "strides": [2]}
    network.weighted("QLinearConv", (6, 8, 4), 0.0091137, (0.4391173, -128), **same)
    network.move("Flatten")
    network.weighted("QLinearMatMul", (60, 5), 0.0171137, (1.1313737, 0))
    return network.content()


def residual(dtype: type) -> bytes:
    """Return a sum of two layers' results, a global average, and a product."""
    network = QuantisedFile([1, 4, 6, 5], dtype)
    around: dict[str, Any] = {"bias": 500, "pads": [1, 1, 1, 1]}
    network.weighted("QLinearConv", (8, 4, 3, 3), 0.0113411, (0.4127391, -3), **around)
    first, quantised = network.last, network.quantised
    network.weighted("QLinearConv", (8, 8, 3, 3), 0.0091137, (0.8391173, 9), **around)
    network.sum(first, quantised, (0.9131713, -11))
    network.function("QLinearGlobalAveragePool", (0.2117131, 4))
    network.move("Flatten")
    network.weighted("QLinearMatMul", (8, 5), 0.0171137, (1.1313737, 0))
    return network.content()


def in_qdq(content: bytes) -> bytes:
    """Return a network of float operators between DequantizeLinear and QuantizeLinear."""
    import onnx

    model = onnx.ModelProto.FromString(content)
    arrays = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    nodes: list[Any] = []

    def constant(array: Array) -> str:
        name = f"q{len(arrays)}"
        arrays[name] = array
        return name

    def real(name: str, scale: str, zero: str) -> str:
        made = f"{name} of {len(nodes)}"
        axis: dict[str, Any] = {"axis": 0} if arrays[scale].ndim else {}
        nodes.append(onnx.helper.make_node("DequantizeLinear", [name, scale, zero], [made], **axis))
        return made

    for node in model.graph.node:
        kind, given = node.op_type, list(node.input)
        if kind not in ("QLinearConv", "QLinearMatMul", "QLinearAdd"):
            nodes.append(node)
            continue
        operands = [real(*given[:3]), real(*given[3:6])]
        if len(given) > 8:
            scale = arrays[given[1]] * arrays[given[4]]
            zeros = np.zeros(scale.shape, np.int32)
            operands.append(real(given[8], constant(scale), constant(zeros)))
        result = f"{node.output[0]} real"
        plain = onnx.helper.make_node(kind.removeprefix("QLinear"), operands, [result])
        plain.attribute.extend(node.attribute)
        nodes += [
            plain,
            onnx.helper.make_node("QuantizeLinear", [result, *given[6:8]], node.output),
        ]
    return _rewritten(model, nodes, arrays)


def _rewritten(model: Any, nodes: list[Any], arrays: dict[str, Array]) -> bytes:
    """Return a model with other operators and constants."""
    from onnx import numpy_helper

    for field in ("node", "value_info", "initializer"):
        model.graph.ClearField(field)
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()
    )
    content: bytes = model.SerializeToString()
    return content


def expected(content: bytes, x: Array) -> Array:
    """Return ONNX Runtime's result for x."""
    result: Array = onnx_session(content).run(None, {"x": x})[0]
    return result


def of_integers(content: bytes, x: Array) -> Array:
    """Return ONNX Runtime's result for x, with integer operators wherever possible."""
    return expected(optimise_onnx(content, "integers"), x)


def inputs(shape: tuple[int, ...], count: int) -> list[Array]:
    """Return random inputs."""
    generator = np.random.default_rng(2)
    return [generator.standard_normal(shape).astype(np.float32) * 3 for _ in range(count)]
