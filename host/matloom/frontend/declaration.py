"""Declarations of a model file: its tensors, signatures and origin, read without compiling it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from matloom.ir.graph import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class DeclaredTensor:
    """A tensor as its file declares it.

    Members
    -------
    name:
        Name in the file; two tensors may share one.
    key:
        Unique name of an input or output in `Session.run`.
    number:
        Index in the file (TensorFlow Lite), or among the inputs followed by the outputs (ONNX).
    shape:
        Sizes; for a size that the file leaves open, the name of the dimension, or None.
    placeholder:
        The shape in the file if `shape` has open sizes: TensorFlow Lite writes ones for them.
    dtype:
        NumPy's name of the type; ``"object"`` if NumPy has none.
    scales, zero_points, axis:
        Quantisation as stored in the file; empty if there is none.
    data:
        Value of a constant; None for a computed tensor.
    """

    name: str
    key: str
    number: int
    shape: tuple[int | str | None, ...]
    placeholder: tuple[int, ...] = ()
    dtype: str
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    axis: int = 0
    data: Array | None = field(default=None, repr=False)

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The shape if all sizes are known; None otherwise."""
        known = tuple(size for size in self.shape if isinstance(size, int))
        return known if len(known) == len(self.shape) else None


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A named way to call a network.

    `inputs` and `outputs` map the name of each argument and result to its `DeclaredTensor.number`.
    """

    name: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """Origin of a model, as stated in ONNX files."""

    producer: str = ""
    graph: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Declaration:
    """Declarations of a model file.

    Members
    -------
    inputs, outputs:
        Inputs and outputs of the network, in the file's order.
    tensors:
        All tensors of a TensorFlow Lite file; only the inputs and outputs of an ONNX file.
    signatures:
        Signatures whose tensors are all inputs and outputs of the network.
    info:
        Origin of the model; empty for TensorFlow Lite files.
    """

    inputs: tuple[DeclaredTensor, ...]
    outputs: tuple[DeclaredTensor, ...]
    tensors: tuple[DeclaredTensor, ...]
    signatures: tuple[Signature, ...] = ()
    info: ModelInfo = field(default_factory=ModelInfo)
