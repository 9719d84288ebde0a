"""Converts interpolation to operators that the engine has."""

import numpy as np
import numpy.typing as npt

from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.floats.edges import extend
from matloom.frontend.onnx.floats.values import FloatValues
from matloom.frontend.onnx.move_options import MoveOptions
from matloom.ir.attributes import DepthwiseConv2D, FullyConnected, Resize
from matloom.ir.graph import Op


def interpolate(values: FloatValues, number: int, size: Resize, name: str) -> int:
    """Return the tensor number of an image enlarged by whole factors with linear interpolation.

    Beyond the edges of the image, its outer rows and columns repeat. To enlarge by a factor of f,
    each position is repeated f times, and then averaged with its neighbours: over f positions if f
    is odd, otherwise over f + 1, of which the outer two count half.
    """
    shape = values.builder.tensors[number].shape
    factors = [size.size[at] // shape[at + 1] for at in range(2)]
    number = values.add(Op.RESIZE_NEAREST_NEIGHBOR, [number], size)
    for axis, factor in enumerate(factors, 1):
        last = values.builder.tensors[number].shape[axis] - 1
        number = extend(values, number, axis, [0] * (factor // 2), [last] * (factor // 2))
    taps = np.outer(*map(_averaging_weights, factors)).astype(np.float32)
    filters = np.repeat(taps[np.newaxis, :, :, np.newaxis], shape[3], axis=3)
    operands = [number, values.builder.constant(filters)]
    return values.add(Op.DEPTHWISE_CONV_2D, operands, DepthwiseConv2D(), name=name)


def _averaging_weights(factor: int) -> npt.NDArray[np.float64]:
    """Return the weights that average positions along an axis, each repeated `factor` times."""
    weights = np.full(factor | 1, 1 / factor)
    if factor % 2 == 0:
        weights[[0, -1]] /= 2
    return weights


def resize_axes(values: FloatValues, node: FileNode, options: MoveOptions) -> None:
    """Convert a Resize of any kind to a dense layer along each resized axis, which interpolates."""
    name = node.source
    order = values.order_of([name])
    for axis, target in options.resized_axes().items():
        # An axis that moves behind all others changes places with them, which is a fast transpose.
        order = (*(each for each in order if each != axis), axis)
        weights = values.builder.constant(
            _interpolation_weights(node, values.shape(name)[axis], target)
        )
        operands = [values.tensor_in_order(name, order), weights]
        dense = FullyConnected(keep_num_dims=True)
        name = f"{node.output}/{axis}"
        values.hold(name, order, values.add(Op.FULLY_CONNECTED, operands, dense, name=name))
    values.copy(name, node.output)


def _interpolation_weights(
    node: FileNode, size: int, target: float | int
) -> npt.NDArray[np.float32]:
    """Return the weights (outputs, inputs) with which a Resize interpolates along an axis.

    ONNX Runtime computes them by resizing unit vectors. `size` is the size of the axis; `target` is
    its new size or, if it is a float, its scale.
    """
    import onnx
    import onnxruntime

    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    units = np.eye(size, dtype=np.float32).reshape(size, 1, size, 1)
    given = np.array([1, 1, target, 1], np.float32 if isinstance(target, float) else np.int64)
    if not isinstance(target, float):
        given[0] = size
    inputs = ["units", "", *[""] * (not isinstance(target, float)), "given"]
    kept = {name: value for name, value in node.options.items() if name != "axes"}
    operator = helper.make_node("Resize", inputs, ["weights"], **kept)
    graph = helper.make_graph(
        [operator],
        "interpolation",
        [helper.make_tensor_value_info("units", onnx.TensorProto.FLOAT, units.shape)],
        [helper.make_tensor_value_info("weights", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(given, "given")],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", node.opset)], ir_version=8
    )
    quiet = onnxruntime.SessionOptions()
    # It warns of sizes that it infers otherwise than it computes.
    quiet.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), quiet, providers=["CPUExecutionProvider"]
    )
    (weights,) = session.run(None, {"units": units})
    return np.ascontiguousarray(weights.reshape(size, -1).T)
