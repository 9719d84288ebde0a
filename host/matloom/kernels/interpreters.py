"""The reference interpreters: TensorFlow Lite Micro, LiteRT, ONNX Runtime and ONNX's own.

This file imports one other module of Matloom: `attempts.py`, a program, loads both by their paths.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.kernels.onnx_sessions import onnx_session, plain_error

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A model file with the operators that an interpreter is to run.

    Members
    -------
    content:
        Bytes of the file.
    arena:
        Number of bytes of memory for the tensors; for ONNX's libraries, the bytes allowed for
        values.
    inputs, outputs:
        Number of inputs, and number of outputs.
    has_run_time_shapes:
        Whether the values of some tensor decide another's shape, so that a run may fail on some
        inputs although the interpreter supports the operators.
    """

    content: bytes
    arena: int
    inputs: int
    outputs: int
    has_run_time_shapes: bool = False


class Library:
    """One network on an interpreter, which may keep state from run to run.

    Raises
    ------
    ImportError
        The library is not installed.
    RuntimeError, ValueError
        The library refuses the network, or a run fails.
    """

    def __init__(self, cut: Cut) -> None:
        self.cut = cut

    def kinds(self) -> list[tuple[tuple[int, ...], Any]]:
        """Return shape and dtype of each input."""
        raise NotImplementedError

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the network once on inputs in order; return its outputs in order."""
        raise NotImplementedError


class _Micro(Library):
    """TensorFlow Lite Micro, in which every tensor must have the shape in the file.

    Some kernels overwrite an output's shape without checking its rank (DEPTH_TO_SPACE writes four
    sizes), so the number of elements is checked here.
    """

    def __init__(self, cut: Cut) -> None:
        from tflite_micro.python.tflite_micro import runtime

        super().__init__(cut)
        self._interpreter = runtime.Interpreter.from_bytes(cut.content, arena_size=cut.arena)
        graph = runtime.schema_fb.Model.GetRootAs(cut.content).Subgraphs(0)
        for at in range(cut.outputs):
            declared = graph.Tensors(graph.Outputs(at))
            wanted = [declared.Shape(axis) for axis in range(declared.ShapeLength())]
            made = list(map(int, self._interpreter.get_output_details(at)["shape"]))
            if math.prod(made) != math.prod(wanted):
                raise RuntimeError(f"it makes {made} of an output of shape {wanted}")

    def kinds(self) -> list[tuple[tuple[int, ...], Any]]:
        """Return the shape and type of each input."""
        details = [self._interpreter.get_input_details(at) for at in range(self.cut.inputs)]
        return [(tuple(detail["shape"]), detail["dtype"]) for detail in details]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the network once and return its outputs."""
        for at, array in enumerate(inputs):
            self._interpreter.set_input(array, at)
        self._interpreter.invoke()
        return [self._interpreter.get_output(at) for at in range(self.cut.outputs)]


class _Lite(Library):
    """LiteRT, in which shapes of inputs may change from run to run."""

    def __init__(self, cut: Cut) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        super().__init__(cut)
        self._interpreter = Interpreter(
            model_content=cut.content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
        )
        self._interpreter.allocate_tensors()

    def kinds(self) -> list[tuple[tuple[int, ...], Any]]:
        """Return the shape and type of each input."""
        details = self._interpreter.get_input_details()
        return [(tuple(detail["shape"]), detail["dtype"]) for detail in details]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the network once, resized to the inputs' shapes, and return its outputs."""
        details = self._interpreter.get_input_details()
        shapes = [tuple(detail["shape"]) for detail in details]
        if shapes != [array.shape for array in inputs]:
            for detail, array in zip(details, inputs, strict=True):
                self._interpreter.resize_tensor_input(detail["index"], array.shape)
            self._interpreter.allocate_tensors()
        for detail, array in zip(details, inputs, strict=True):
            self._interpreter.set_tensor(detail["index"], array)
        self._interpreter.invoke()
        return list(map(self._result, self._interpreter.get_output_details()))

    def _result(self, detail: dict[str, Any]) -> Array:
        """Return an output's array from the library's description of it."""
        # The library refuses to copy a tensor without elements.
        if 0 in detail["shape"]:
            return np.empty(detail["shape"], detail["dtype"])
        found: Array = self._interpreter.get_tensor(detail["index"])
        return found


#: NumPy's names of ONNX Runtime's types.
_ONNX_TYPES = {
    **{f"tensor({name})": name for name in ("bool", "int8", "int16", "int32", "int64")},
    **{f"tensor({name})": name for name in ("uint8", "uint16", "uint32", "uint64", "float16")},
    "tensor(float)": "float32",
    "tensor(double)": "float64",
}


class _Onnx(Library):
    """ONNX Runtime, with kernels whose sums do not saturate, if available."""

    def __init__(self, cut: Cut) -> None:
        import onnxruntime

        super().__init__(cut)
        onnxruntime.set_seed(0)
        self._session = onnx_session(cut.content)

    def kinds(self) -> list[tuple[tuple[int, ...], Any]]:
        """Return the shape and type of each input."""
        found = self._session.get_inputs()
        return [(tuple(value.shape), np.dtype(_ONNX_TYPES[value.type])) for value in found]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the network once and return its outputs."""
        names = [value.name for value in self._session.get_inputs()]
        try:
            return list(self._session.run(None, dict(zip(names, inputs, strict=True))))
        # ONNX Runtime has its own exception classes.
        except Exception as error:
            raise RuntimeError(plain_error(error)) from None


class _OnnxReference(Library):
    """ONNX's reference implementation in Python, which is slow but has all operators."""

    def __init__(self, cut: Cut) -> None:
        import onnx
        from onnx.reference import ReferenceEvaluator

        super().__init__(cut)
        model = onnx.ModelProto()
        model.ParseFromString(cut.content)
        held = {each.name for each in model.graph.initializer}
        self._inputs = [value for value in model.graph.input if value.name not in held]
        self._outputs = model.graph.output
        self._evaluator = ReferenceEvaluator(model)

    def kinds(self) -> list[tuple[tuple[int, ...], Any]]:
        """Return the shape and type of each input."""
        shapes = [value.type.tensor_type.shape.dim for value in self._inputs]
        sizes = [tuple(dim.dim_value for dim in shape) for shape in shapes]
        return list(zip(sizes, map(self._dtype, self._inputs), strict=True))

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the network once and return its outputs, which must have the declared types."""
        names = [value.name for value in self._inputs]
        try:
            # It computes with NaN and infinity on purpose.
            with np.errstate(all="ignore"):
                found = self._evaluator.run(None, dict(zip(names, inputs, strict=True)))
        except Exception as error:
            raise RuntimeError(plain_error(error) or type(error).__name__) from None
        made = list(map(np.asarray, found))
        for value, array in zip(self._outputs, made, strict=True):
            if array.dtype != self._dtype(value):
                raise RuntimeError(f"it gives {array.dtype} for {value.name!r}")
        return made

    def _dtype(self, value: Any) -> Any:
        """Return the NumPy dtype of an input or output, an `onnx.ValueInfoProto`."""
        import onnx

        return onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)


#: Class of each interpreter, by the name of its package.
LIBRARIES: dict[str, Callable[[Cut], Library]] = {
    "tflite-micro": _Micro,
    "ai-edge-litert": _Lite,
    "onnxruntime": _Onnx,
    "onnx": _OnnxReference,
}
