"""Declarations of a model file: its tensors, signatures and origin, read without compiling it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from matloom.ir.graph import Array

__all__ = ["Declaration", "DeclaredTensor", "ModelInfo", "Signature"]


@dataclass(frozen=True, kw_only=True, eq=False)
class DeclaredTensor:
    """A tensor as its file declares it.

    Members
    -------
    name:
        The file's; two tensors may share one.
    key:
        The name by which `Session.run` knows an input or output: no two of a side are the same.
    number:
        Its place in the file (TensorFlow Lite), or among inputs and outputs (ONNX).
    shape:
        Sizes; the name of a dimension, or None, where the file leaves a size open.
    placeholder:
        The shape that the file has where `shape` is open: TensorFlow Lite writes ones.
    dtype:
        NumPy's name of the type; ``"object"`` where NumPy has none.
    scales, zero_points, axis:
        Quantisation as the file has it, empty if there is none.
    data:
        The value of a constant.
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
        """The shape where all sizes are known; None otherwise."""
        known = tuple(size for size in self.shape if isinstance(size, int))
        return known if len(known) == len(self.shape) else None


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A named way to call a network: numbers of inputs and outputs by the names of arguments."""

    name: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """Origin of a model, as ONNX files state it."""

    producer: str = ""
    graph: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Declaration:
    """A model file's declarations.

    Members
    -------
    inputs, outputs:
        In the file's order.
    tensors:
        All that the file numbers; the inputs and outputs of an ONNX file.
    signatures:
        Those whose tensors are inputs and outputs of the network.
    """

    inputs: tuple[DeclaredTensor, ...]
    outputs: tuple[DeclaredTensor, ...]
    tensors: tuple[DeclaredTensor, ...]
    signatures: tuple[Signature, ...] = ()
    info: ModelInfo = field(default_factory=ModelInfo)
