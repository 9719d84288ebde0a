"""Writes the trained digit network as a float .tflite file, operator by operator."""

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from network import CHANNELS, CLASSES, WIDE_CHANNELS, DigitNetwork

INPUT = "image"
OUTPUT = "probabilities"
SIGNATURE = "serving_default"

_RELU = schema.ActivationFunctionType.RELU
_LINEAR = schema.ActivationFunctionType.NONE


class _Writer:
    """Collects tensors and operators of one subgraph; tensors are known by their indices."""

    def __init__(self) -> None:
        # Buffer 0 is the empty one, which every tensor without constant data shares.
        self.buffers = [schema.BufferT()]
        self.tensors: list[schema.TensorT] = []
        self.operators: list[schema.OperatorT] = []
        self.codes: list[int] = []

    def tensor(self, name: str, shape: tuple[int, ...]) -> int:
        """Add a float32 tensor without data, an input or a result; return its index."""
        tensor = schema.TensorT()
        tensor.name, tensor.shape = name, list(shape)
        tensor.type = schema.TensorType.FLOAT32
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def constant(self, name: str, values: np.ndarray) -> int:
        """Add a float32 or int32 tensor with constant values; return its index."""
        index = self.tensor(name, values.shape)
        if values.dtype == np.int32:
            self.tensors[index].type = schema.TensorType.INT32
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
        self.buffers.append(buffer)
        self.tensors[index].buffer = len(self.buffers) - 1
        return index

    def operator(self, kind: str, inputs: list[int], output: int, options: object) -> int:
        """Add an operator; return the index of its output.

        `kind` is its name in the schema, such as CONV_2D, and `options` its table of options.
        """
        code = getattr(schema.BuiltinOperator, kind)
        if code not in self.codes:
            self.codes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex = self.codes.index(code)
        operator.inputs, operator.outputs = inputs, [output]
        options_name = type(options).__name__.removesuffix("T")
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, options_name)
        operator.builtinOptions = options
        self.operators.append(operator)
        return output

    def pack(self, source: int, result: int) -> bytes:
        """Return the file's bytes; `source` and `result` are the network's input and output."""
        subgraph = schema.SubGraphT()
        subgraph.name = "main"
        subgraph.tensors, subgraph.operators = self.tensors, self.operators
        subgraph.inputs, subgraph.outputs = [source], [result]

        signature = schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = SIGNATURE, 0
        signature.inputs = [self._map_tensor(source)]
        signature.outputs = [self._map_tensor(result)]

        model = schema.ModelT()
        model.version = 3
        model.description = "Matloom digits: a residual network for 8x8 handwritten digits"
        model.buffers, model.subgraphs = self.buffers, [subgraph]
        model.signatureDefs = [signature]
        model.operatorCodes = [self._code(code) for code in self.codes]
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _map_tensor(self, index: int) -> schema.TensorMapT:
        """Return the entry of a signature for the tensor of this index."""
        entry = schema.TensorMapT()
        entry.name, entry.tensorIndex = self.tensors[index].name, index
        return entry

    @staticmethod
    def _code(code: int) -> schema.OperatorCodeT:
        """Return the file's entry for an operator code."""
        entry = schema.OperatorCodeT()
        entry.builtinCode = entry.deprecatedBuiltinCode = code
        return entry


def _convolution(
    writer: _Writer,
    name: str,
    source: int,
    folded: tuple[np.ndarray, np.ndarray],
    *,
    size: int,
    stride: int = 1,
    activation: int = _RELU,
) -> int:
    """Add a SAME convolution with `folded` weights and bias; return the index of its output."""
    weights, bias = folded
    options = schema.Conv2DOptionsT()
    options.padding = schema.Padding.SAME
    options.strideH = options.strideW = stride
    options.fusedActivationFunction = activation
    inputs = [
        source,
        writer.constant(f"{name}/weights", weights),
        writer.constant(f"{name}/bias", bias),
    ]
    output = writer.tensor(name, (1, size, size, len(bias)))
    return writer.operator("CONV_2D", inputs, output, options)


def _classifier(writer: _Writer, source: int, network: DigitNetwork) -> int:
    """Add the mean over the image, the dense layer and the softmax; return the probabilities."""
    pool = schema.Pool2DOptionsT()
    pool.padding = schema.Padding.VALID
    pool.filterHeight = pool.filterWidth = 4
    pool.strideH = pool.strideW = 1
    mean = writer.tensor("mean", (1, 1, 1, WIDE_CHANNELS))
    writer.operator("AVERAGE_POOL_2D", [source], mean, pool)

    reshape = schema.ReshapeOptionsT()
    reshape.newShape = [1, WIDE_CHANNELS]
    shape = writer.constant("features/shape", np.array(reshape.newShape, np.int32))
    features = writer.tensor("features", (1, WIDE_CHANNELS))
    writer.operator("RESHAPE", [mean, shape], features, reshape)

    weights = writer.constant("logits/weights", network.dense.weight.detach().numpy())
    bias = writer.constant("logits/bias", network.dense.bias.detach().numpy())
    logits = writer.tensor("logits", (1, CLASSES))
    dense = schema.FullyConnectedOptionsT()
    writer.operator("FULLY_CONNECTED", [features, weights, bias], logits, dense)

    softmax = schema.SoftmaxOptionsT()
    softmax.beta = 1.0
    return writer.operator("SOFTMAX", [logits], writer.tensor(OUTPUT, (1, CLASSES)), softmax)


def float_tflite(network: DigitNetwork) -> bytes:
    """Return the network as a float .tflite file: image (1, 8, 8, 1) to probabilities (1, 10)."""
    writer = _Writer()
    image = writer.tensor(INPUT, (1, 8, 8, 1))
    stem = _convolution(writer, "stem", image, network.stem.fold_norm(), size=8)
    inner = _convolution(writer, "inner", stem, network.inner.fold_norm(), size=8)
    outer = _convolution(
        writer, "outer", inner, network.outer.fold_norm(), size=8, activation=_LINEAR
    )
    add = schema.AddOptionsT()
    add.fusedActivationFunction = _RELU
    add.potScaleInt16 = False
    joined = writer.tensor("joined", (1, 8, 8, CHANNELS))
    writer.operator("ADD", [stem, outer], joined, add)
    wide = _convolution(writer, "wide", joined, network.widen.fold_norm(), size=4, stride=2)
    return writer.pack(image, _classifier(writer, wide, network))
