"""LiteRT's Interpreter, on Matloom."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.compat.loading import Network
from matloom.compat.session_options import note
from matloom.compat.signature import Details, SignatureRunner, litert_details
from matloom.errors import UserError
from matloom.frontend.declaration import DeclaredTensor
from matloom.ir.graph import Array
from matloom.report import Report
from matloom.session import Session

__all__ = ["Interpreter"]


class Interpreter:
    """A network behind LiteRT's calls; it takes every file that `matloom.load` takes.

    Tensors have the file's numbers; those of ONNX files and compiled programs, which have none,
    are counted, inputs first. `allocate_tensors` compiles, and compiles again where
    `resize_tensor_input` changed a shape.

    Parameters
    ----------
    model_path, model_content:
        A file's path or its bytes: one of them.
    experimental_delegates:
        Ignored, with a warning: the engine runs what it can, the host the rest.
    num_threads, experimental_op_resolver_type:
        Ignored: results always equal the reference kernels'.
    experimental_preserve_all_tensors:
        Keep what operators make for `get_tensor`; the program stores it all, and runs longer.
    options:
        Keywords of `matloom.load`, with its defaults: `device`, `config`, `precision` and so on.
        MATLOOM_DEVICE and MATLOOM_CONFIG of the environment replace the defaults of the first two.
        LiteRT's other keywords, which begin with ``experimental_``, are ignored.

    Raises
    ------
    ModelError, ProgramError
        The file cannot be read.
    UserError
        There is no file, or there are two.
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
            note(
                "experimental_delegates are ignored: the engine runs what it can, the host the rest"
            )
        kept = {name: value for name, value in options.items() if not _of_litert(name)}
        self._network = Network(_source(model_path, model_content), kept)
        self._declared = self._network.declaration
        self._preserve = experimental_preserve_all_tensors
        self._session: Session | None = None
        #: Shapes that inputs were given, by their numbers, and those that the session was made for.
        self._resized: dict[int, tuple[int, ...]] = {}
        self._compiled: dict[int, tuple[int, ...]] = {}
        self._values: dict[int, Array] = {}

    def allocate_tensors(self) -> None:
        """Compile the network for the shapes of its inputs; inputs are zero afterwards.

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
        """Return the same for every tensor that the file numbers."""
        return [self._details(tensor) for tensor in self._declared.tensors]

    def resize_tensor_input(
        self, input_index: int, tensor_size: Sequence[int], strict: bool = False
    ) -> None:
        """Give an input another shape; the next `allocate_tensors` compiles the network for it.

        Errors
        ------
        UserError
            The tensor is no input, or `strict` and a size differs that the file does not leave
            open.
        """
        tensor = self._input(input_index)
        shape = tuple(int(size) for size in tensor_size)
        fits = len(shape) == len(tensor.shape) and all(
            have in (None, size) or isinstance(have, str)
            for have, size in zip(tensor.shape, shape, strict=True)
        )
        if strict and not fits:
            raise UserError(f"input {tensor.name!r} must have shape {tensor.shape}, not {shape}")
        if shape == tensor.placeholder:
            self._resized.pop(input_index, None)
        else:
            self._resized[input_index] = shape

    def set_tensor(self, tensor_index: int, value: npt.ArrayLike) -> None:
        """Copy an array into an input.

        Errors
        ------
        ValueError
            The tensor is no input, the shape or type is not its own, or nothing is allocated.
        """
        tensor, array = self._input(tensor_index), np.asarray(value)
        target = self._value(tensor)
        if array.dtype != target.dtype:
            raise UserError(
                f"Cannot set tensor: Got value of type {array.dtype} but expected type "
                f"{target.dtype} for input {tensor_index}, name: {tensor.name}"
            )
        if array.shape != target.shape:
            raise UserError(
                f"Cannot set tensor: Got shape {array.shape} but expected {target.shape} for "
                f"input {tensor_index}, name: {tensor.name}",
                hint="call resize_tensor_input and allocate_tensors first for another shape",
            )
        target[...] = array

    def invoke(self) -> None:
        """Run the network on its inputs.

        Errors
        ------
        RuntimeError
            `allocate_tensors` was not called since the last change of a shape.
        """
        if self._session is None or self._compiled != self._resized:
            raise RuntimeError("Invoke called on model that is not ready: call allocate_tensors()")
        inputs = {tensor.key: self._values[tensor.number] for tensor in self._declared.inputs}
        if not self._preserve:
            self._keep(self._declared.outputs, self._session.run(inputs))
            return
        made = self._session.run(inputs, "all")
        ends = {tensor.key: tensor for tensor in self._declared.outputs}
        inside = {tensor.name: tensor for tensor in self._declared.tensors}
        found = {name: {**inside, **ends}[name] for name in made if name in {**inside, **ends}}
        self._keep(tuple(found.values()), {found[name].key: made[name] for name in found})

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Array:
        """Return a copy of an input, an output, or a constant of the file.

        Errors
        ------
        ValueError
            There is no such tensor, or nothing is allocated, or an operator made it and
            `experimental_preserve_all_tensors` was not given.
        """
        tensor = self._tensor(tensor_index)
        return np.array(self._value(tensor) if tensor.data is None else tensor.data)

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """Return a function that returns an input or output itself, to be written and read."""
        tensor = self._tensor(tensor_index)
        return lambda: self._value(tensor)

    def reset_all_variables(self) -> None:
        """Forget what the network remembers from run to run."""
        if self._session is not None:
            self._session.reset()

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Return names of inputs and outputs of each signature, sorted."""
        return {
            each.name: {"inputs": sorted(each.inputs), "outputs": sorted(each.outputs)}
            for each in self._declared.signatures
        }

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """Return a signature as a function; the only one for None.

        Errors
        ------
        ValueError
            There is no such signature, or several where none is named.
        """
        known = {each.name: each for each in self._declared.signatures}
        if signature_key is None and len(known) == 1:
            (signature_key,) = known
        if signature_key not in known:
            listed = ", ".join(known) or "none"
            raise UserError(f"signature_key must be one of {listed}, not {signature_key!r}")
        return SignatureRunner(self, known[signature_key])

    @property
    def session(self) -> Session:
        """The `matloom.Session` that runs the network; raises `UserError` before there is one."""
        if self._session is None:
            raise UserError("nothing is compiled yet", hint="call allocate_tensors() first")
        return self._session

    def report(self) -> Report:
        """Return what the last run cost."""
        return self.session.report()

    def close(self) -> None:
        """Close the device; `allocate_tensors` opens it again."""
        if self._session is not None:
            self._session.close()
        self._session = None

    def _tensor(self, number: int) -> DeclaredTensor:
        count = len(self._declared.tensors)
        if not 0 <= number < count:
            raise UserError(f"Invalid tensor index {number} exceeds max tensor index {count}")
        return self._declared.tensors[number]

    def _input(self, number: int) -> DeclaredTensor:
        tensor = self._tensor(number)
        if tensor not in self._declared.inputs:
            listed = ", ".join(f"{each.number} ({each.name})" for each in self._declared.inputs)
            raise UserError(f"a tensor to write must be an input, {listed}, not {number}")
        return tensor

    def _value(self, tensor: DeclaredTensor) -> Array:
        if self._session is None:
            raise UserError("Tensor data is null. Run allocate_tensors() first")
        if tensor.number not in self._values:
            raise UserError(
                f"tensor {tensor.number} ({tensor.name}) is not kept: it is neither input nor "
                "output",
                hint="give experimental_preserve_all_tensors=True, and invoke",
            )
        return self._values[tensor.number]

    def _keep(self, tensors: Sequence[DeclaredTensor], made: Mapping[str, Array]) -> None:
        """Take results up, in the arrays that `tensor` gave out where their shapes are the same."""
        for tensor in tensors:
            array, kept = made[tensor.key], self._values.get(tensor.number)
            if kept is not None and kept.shape == array.shape:
                kept[...] = array
            else:
                self._values[tensor.number] = array

    def _details(self, tensor: DeclaredTensor) -> Details:
        value = self._values.get(tensor.number)
        known = tensor.placeholder or tensor.sizes or () if value is None else value.shape
        return litert_details(tensor, self._resized.get(tensor.number) or known)


def _of_litert(name: str) -> bool:
    """Return whether a keyword is one of LiteRT's that have no meaning here."""
    return name.startswith("experimental_")


def _source(path: str | os.PathLike[str] | None, content: bytes | None) -> str | bytes:
    """Return the one source of a network that is given."""
    if path is not None and content is None:
        return os.fspath(path)
    if content is not None and path is None:
        return bytes(content)
    raise UserError("an interpreter must have a model_path or a model_content, one of them")
