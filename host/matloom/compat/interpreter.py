"""LiteRT's Interpreter on Matloom."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.compat.interpreter_arguments import is_litert_option, source_of
from matloom.compat.loading import Network
from matloom.compat.session_options import warn_ignored
from matloom.compat.signature import Details, SignatureRunner, litert_details
from matloom.errors import UserError
from matloom.frontend.declaration import DeclaredTensor
from matloom.ir.graph import Array
from matloom.report import Report
from matloom.session import Session


class Interpreter:
    """LiteRT's Interpreter for every file that `matloom.load` accepts.

    Tensors have the file's numbers; those of ONNX files and compiled programs are numbered from 0,
    inputs first. `allocate_tensors` compiles the network, also after `resize_tensor_input`.

    Parameters
    ----------
    model_path, model_content:
        Path of a model file, or its bytes; give exactly one of them.
    experimental_delegates:
        Ignored, with a warning: the engine runs what it can, the host the rest.
    num_threads, experimental_op_resolver_type:
        Ignored: results always equal TensorFlow Lite Micro's.
    experimental_preserve_all_tensors:
        Keep all intermediate tensors for `get_tensor`; the program stores them, and takes longer.
    options:
        Keywords of `matloom.load`, with its defaults: `device`, `config`, `precision` and so on.
        MATLOOM_DEVICE and MATLOOM_CONFIG of the environment replace the defaults of the first two.
        LiteRT's other keywords, which begin with ``experimental_``, are ignored.

    Raises
    ------
    ModelError, ProgramError
        The file cannot be read.
    UserError
        Neither or both of `model_path` and `model_content` are given.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
        experimental_delegates: Sequence[Any] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: Any = None,
        experimental_preserve_all_tensors: bool = False,
        **options: Any,
    ) -> None:
        if experimental_delegates:
            warn_ignored(
                "experimental_delegates are ignored: the engine runs what it can, the host the rest"
            )
        used = {name: value for name, value in options.items() if not is_litert_option(name)}
        self._network = Network(source_of(model_path, model_content), used)
        self._declared = self._network.declaration
        self._preserve = experimental_preserve_all_tensors
        self._session: Session | None = None
        #: Requested shapes of resized inputs, by tensor number.
        self._resized: dict[int, tuple[int, ...]] = {}
        #: The requested shapes for which the session was compiled.
        self._compiled: dict[int, tuple[int, ...]] = {}
        self._values: dict[int, Array] = {}

    def allocate_tensors(self) -> None:
        """Compile the network for the shapes of its inputs, and set inputs and outputs to zero.

        Does nothing if no shape has changed since the last call.

        Raises
        ------
        ModelError, CompileError, DeviceError
            As `matloom.load` raises them.
        """
        if self._session is not None and self._compiled == self._resized:
            return
        self.close()
        inputs = {tensor.number: tensor.key for tensor in self._declared.inputs}
        shapes = {inputs[number]: shape for number, shape in self._resized.items()}
        self._session = session = self._network.session(shapes)
        self._compiled = dict(self._resized)
        sides = (
            (self._declared.inputs, session.program.inputs),
            (self._declared.outputs, session.program.outputs),
        )
        self._values = {
            tensor.number: np.zeros(info.shape, info.dtype)
            for tensors, infos in sides
            for tensor, info in zip(tensors, infos, strict=True)
        }

    def get_input_details(self) -> list[Details]:
        """Return name, index, shape, type and quantisation of each input."""
        return [self._details(tensor) for tensor in self._declared.inputs]

    def get_output_details(self) -> list[Details]:
        """Return name, index, shape, type and quantisation of each output."""
        return [self._details(tensor) for tensor in self._declared.outputs]

    def get_tensor_details(self) -> list[Details]:
        """Return name, index, shape, type and quantisation of every numbered tensor of the file."""
        return [self._details(tensor) for tensor in self._declared.tensors]

    def resize_tensor_input(
        self, input_index: int, tensor_size: Sequence[int], strict: bool = False
    ) -> None:
        """Change the shape of an input; the next `allocate_tensors` compiles the network for it.

        Raises
        ------
        UserError
            The tensor is not an input; or, with `strict`, the shape differs from the file's in a
            dimension that is not open.
        """
        tensor = self._input(input_index)
        shape = tuple(int(size) for size in tensor_size)
        fits = len(shape) == len(tensor.shape) and all(
            have in (None, size) or isinstance(have, str)
            for have, size in zip(tensor.shape, shape, strict=True)
        )
        if strict and not fits:
            raise UserError(
                f"input {tensor.name!r} must have shape {tensor.shape}, not {shape}",
                hint="pass sizes to matloom.load (shapes=...), which takes networks of any size",
            )
        if shape == tensor.placeholder:
            self._resized.pop(input_index, None)
        else:
            self._resized[input_index] = shape

    def set_tensor(self, tensor_index: int, value: npt.ArrayLike) -> None:
        """Copy an array into an input.

        Raises
        ------
        ValueError
            The tensor is not an input, the shape or type does not match, or `allocate_tensors` was
            not called.
        """
        tensor, array = self._input(tensor_index), np.asarray(value)
        target = self._value(tensor)
        if array.dtype != target.dtype:
            raise UserError(
                f"Cannot set tensor: Got value of type {array.dtype} but expected type "
                f"{target.dtype} for input {tensor_index}, name: {tensor.name}",
                hint=f"convert it: array.astype('{target.dtype}')",
            )
        if array.shape != target.shape:
            raise UserError(
                f"Cannot set tensor: Got shape {array.shape} but expected {target.shape} for "
                f"input {tensor_index}, name: {tensor.name}",
                hint="call resize_tensor_input and allocate_tensors first for another shape",
            )
        target[...] = array

    def invoke(self) -> None:
        """Run the network on the inputs that were set; `get_tensor` returns its outputs.

        Raises
        ------
        RuntimeError
            `allocate_tensors` was never called, or not since a shape was changed.
        """
        if self._session is None or self._compiled != self._resized:
            raise RuntimeError("Invoke called on model that is not ready: call allocate_tensors()")
        inputs = {tensor.key: self._values[tensor.number] for tensor in self._declared.inputs}
        if not self._preserve:
            self._keep(self._declared.outputs, self._session.run(inputs))
            return
        tensors = self._session.run(inputs, "all")
        ends = {tensor.key: tensor for tensor in self._declared.outputs}
        inside = {tensor.name: tensor for tensor in self._declared.tensors}
        found = {name: {**inside, **ends}[name] for name in tensors if name in {**inside, **ends}}
        self._keep(tuple(found.values()), {found[name].key: tensors[name] for name in found})

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Array:
        """Return a copy of an input, an output, a constant, or an intermediate tensor if kept.

        Raises
        ------
        ValueError
            The tensor does not exist, `allocate_tensors` was not called, or it is an intermediate
            tensor and `experimental_preserve_all_tensors` was not given.
        """
        tensor = self._tensor(tensor_index)
        return np.array(self._value(tensor) if tensor.data is None else tensor.data)

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """Return a function that returns the array of an input or output itself, not a copy."""
        tensor = self._tensor(tensor_index)
        return lambda: self._value(tensor)

    def reset_all_variables(self) -> None:
        """Return the state that the network keeps between runs to its initial values."""
        if self._session is not None:
            self._session.reset()

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Return the names of inputs and of outputs, each sorted, by name of the signature."""
        return {
            each.name: {"inputs": sorted(each.inputs), "outputs": sorted(each.outputs)}
            for each in self._declared.signatures
        }

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """Return a function that runs a signature; None selects the only signature.

        Raises
        ------
        ValueError
            The signature does not exist, or none is named and there are several.
        """
        known = {each.name: each for each in self._declared.signatures}
        if signature_key is None and len(known) == 1:
            (signature_key,) = known
        if signature_key not in known:
            listed = ", ".join(known) or "none"
            raise UserError(
                f"signature_key must be one of {listed}, not {signature_key!r}",
                hint="get_signature_list() lists them",
            )
        return SignatureRunner(self, known[signature_key])

    @property
    def session(self) -> Session:
        """The `matloom.Session` that runs the network; raises `UserError` if there is none."""
        if self._session is None:
            raise UserError("nothing is compiled yet", hint="call allocate_tensors() first")
        return self._session

    def report(self) -> Report:
        """Return the cost of the last run."""
        return self.session.report()

    def close(self) -> None:
        """Close the device; `allocate_tensors` opens it again."""
        if self._session is not None:
            self._session.close()
        self._session = None

    def _tensor(self, number: int) -> DeclaredTensor:
        """Return the tensor of a number; raise `UserError` if there is none."""
        count = len(self._declared.tensors)
        if not 0 <= number < count:
            raise UserError(
                f"Invalid tensor index {number} exceeds max tensor index {count}",
                hint="get_tensor_details() lists the tensors",
            )
        return self._declared.tensors[number]

    def _input(self, number: int) -> DeclaredTensor:
        """Return the input of a number; raise `UserError` if it is not an input."""
        tensor = self._tensor(number)
        if tensor not in self._declared.inputs:
            listed = ", ".join(f"{each.number} ({each.name})" for each in self._declared.inputs)
            raise UserError(
                f"a tensor to write must be an input, {listed}, not {number}",
                hint="get_input_details() lists the inputs",
            )
        return tensor

    def _value(self, tensor: DeclaredTensor) -> Array:
        """Return the current value of a tensor; raise `UserError` if it is not stored."""
        if self._session is None:
            raise UserError(
                "Tensor data is null. Run allocate_tensors() first",
                hint="call allocate_tensors() first",
            )
        if tensor.number not in self._values:
            raise UserError(
                f"tensor {tensor.number} ({tensor.name}) is not kept: it is neither input nor "
                "output",
                hint="give experimental_preserve_all_tensors=True, and invoke",
            )
        return self._values[tensor.number]

    def _keep(self, tensors: Sequence[DeclaredTensor], results: Mapping[str, Array]) -> None:
        """Store results; arrays that `tensor` returned are updated if their shapes still match."""
        for tensor in tensors:
            array, kept = results[tensor.key], self._values.get(tensor.number)
            if kept is not None and kept.shape == array.shape:
                kept[...] = array
            else:
                self._values[tensor.number] = array

    def _details(self, tensor: DeclaredTensor) -> Details:
        """Return the details of a tensor as LiteRT does, with its current or declared shape."""
        value = self._values.get(tensor.number)
        known = tensor.placeholder or tensor.sizes or () if value is None else value.shape
        return litert_details(tensor, self._resized.get(tensor.number) or known)
