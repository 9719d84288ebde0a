"""Small ONNX networks of floats."""

from typing import Any

import numpy as np

from matloom.ir.graph import Array

__all__ = ["FloatFile", "float_onnx"]


class FloatFile:
    """An ONNX file under construction; values are identified by name."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, data: Array) -> str:
        """Add a constant; return its name."""
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(data), name))
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator; return its output."""
        import onnx

        made = f"value_{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op, list(inputs), [made], **attributes))
        return made

    def weights(self, *shape: int) -> str:
        """Add weights of which `shape[1:]` are summed."""
        spread = (2 / max(int(np.prod(shape[1:])), 1)) ** 0.5
        return self.constant(self.random.normal(0, spread, shape).astype(np.float32))

    def bias(self, channels: int) -> str:
        """Add a bias."""
        return self.constant(self.random.normal(0, 0.1, channels).astype(np.float32))

    def content(
        self, shape: tuple[int, ...], output: str, kind: int = 1, *, opset: int = 17
    ) -> bytes:
        """Return the file; its input is `image`."""
        import onnx

        graph = onnx.helper.make_graph(
            self.nodes,
            "floats",
            [onnx.helper.make_tensor_value_info("image", kind, shape)],
            [onnx.helper.make_tensor_value_info(output, 1, None)],
            initializer=self.constants,
        )
        imports = [onnx.helper.make_opsetid("", opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
        content: bytes = model.SerializeToString()
        return content


def float_onnx() -> bytes:
    """Return a network of an image (1, 3, 8, 8), as PyTorch exports one: a residual block.

    Its convolution of stride 2 has padding on all sides, which is not SAME.
    """
    file = FloatFile()
    first = file.add("Conv", "image", file.weights(8, 3, 3, 3), pads=[1] * 4, strides=[2, 2])
    scale = file.constant(file.random.uniform(0.5, 2, 8).astype(np.float32))
    variance = file.constant(file.random.uniform(0.5, 2, 8).astype(np.float32))
    normal = file.add("BatchNormalization", first, scale, file.bias(8), file.bias(8), variance)
    positive = file.add("Relu", normal)
    inside = file.add(
        "Conv", positive, file.weights(8, 1, 3, 3), file.bias(8), pads=[1] * 4, group=8
    )
    limited = file.add(
        "Clip",
        inside,
        file.constant(np.array(0, np.float32)),
        file.constant(np.array(6, np.float32)),
    )
    last = file.add("Conv", limited, file.weights(8, 8, 1, 1), file.bias(8))
    total = file.add("Relu", file.add("Add", positive, last))
    pooled = file.add("MaxPool", total, kernel_shape=[2, 2], strides=[2, 2])
    flat = file.add("Flatten", pooled)
    dense = file.add("Gemm", flat, file.weights(5, 32), file.bias(5), transB=1)
    return file.content((1, 3, 8, 8), file.add("Softmax", dense, axis=1))
