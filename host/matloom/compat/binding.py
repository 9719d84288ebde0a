"""ONNX Runtime's OrtValue and IOBinding, for arrays in the host's memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from matloom.errors import UserError
from matloom.ir.graph import Array

#: ONNX Runtime's names of types, where they differ from NumPy's.
_NAMES = {"float32": "float", "float64": "double", "object": "string"}


def type_name(dtype: str) -> str:
    """Return ONNX Runtime's name of a tensor type: ``tensor(float)`` for float32."""
    return f"tensor({_NAMES.get(dtype, dtype)})"


def _require_host(device_type: str) -> None:
    """Raise `UserError` unless a device type is ``"cpu"``."""
    if device_type.lower() != "cpu":
        raise UserError(
            f"device_type must be 'cpu', not {device_type!r}",
            hint="bind arrays of NumPy: Matloom moves them to the engine itself",
        )


class OrtValue:
    """ONNX Runtime's wrapper of an array, always in the host's memory."""

    def __init__(self, array: Array) -> None:
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(
        numpy_obj: Array, device_type: str = "cpu", device_id: int = 0
    ) -> "OrtValue":
        """Return a value that shares the memory of an array."""
        _require_host(device_type)
        return OrtValue(numpy_obj)

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> "OrtValue":
        """Return a value with the given shape and NumPy type, filled with zeros."""
        _require_host(device_type)
        return OrtValue(np.zeros(tuple(shape), element_type))

    def numpy(self) -> Array:
        """Return the array itself, not a copy."""
        return self._array

    def update_inplace(self, np_arr: Array) -> None:
        """Copy an array into this one; raise `UserError` if its shape or type differs."""
        if (np_arr.shape, np_arr.dtype) != (self._array.shape, self._array.dtype):
            wanted = f"{self._array.dtype} {self._array.shape}"
            raise UserError(
                f"a value of {wanted} must not become {np_arr.dtype} {np_arr.shape}",
                hint="give an array of this type and shape",
            )
        self._array[...] = np_arr

    def shape(self) -> list[int]:
        """Return the shape of the array as a list."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """Return ONNX Runtime's name of the type, such as ``tensor(float)``."""
        return type_name(self._array.dtype.name)

    def device_name(self) -> str:
        """Return ``"cpu"``, the only device of values here."""
        return "cpu"

    def is_tensor(self) -> bool:
        """Return True: sequences and maps are not supported."""
        return True

    def has_value(self) -> bool:
        """Return True: there are no absent optional values."""
        return True


class IOBinding:
    """Inputs and outputs of runs, bound by name.

    Arrays are in the host's memory, so a binding only replaces the arguments of `run`, and saves no
    copies. An output that is bound to a value is copied into its array, whose shape and type must
    match.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._inputs: dict[str, OrtValue] = {}
        self._outputs: dict[str, OrtValue | None] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Array) -> None:
        """Bind an input to an array."""
        self._inputs[name] = OrtValue(np.asarray(arr_on_cpu))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to a value."""
        self._inputs[name] = ortvalue

    def bind_input(self, name: str, *arguments: Any, **options: Any) -> None:
        """Raise `UserError`: an address in memory cannot be bound to an input."""
        raise UserError(
            f"input {name!r} cannot be bound to an address",
            hint="use bind_cpu_input or bind_ortvalue_input with an array",
        )

    def bind_output(
        self, name: str, device_type: str = "cpu", device_id: int = 0, **buffer: Any
    ) -> None:
        """Request an output, which each run returns in a new array."""
        _require_host(device_type)
        if buffer.get("buffer_ptr") is not None:
            raise UserError(
                f"output {name!r} cannot be bound to an address",
                hint="use bind_ortvalue_output with an array",
            )
        self._outputs[name] = None

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Request an output, which each run copies into the array of a value."""
        self._outputs[name] = ortvalue

    def run(self) -> None:
        """Run the session on the bound inputs, and store the bound outputs."""
        feeds = {name: value.numpy() for name, value in self._inputs.items()}
        found = self._session.run(list(self._outputs), feeds) if self._outputs else []
        self._results = []
        for array, target in zip(found, self._outputs.values(), strict=True):
            if target is not None:
                target.update_inplace(array)
            self._results.append(OrtValue(array) if target is None else target)

    def get_outputs(self) -> list[OrtValue]:
        """Return the outputs of the last run, in the order in which they were bound."""
        return list(self._results)

    def copy_outputs_to_cpu(self) -> list[Array]:
        """Return the outputs of the last run as arrays, in the order in which they were bound."""
        return [value.numpy() for value in self._results]

    def clear_binding_inputs(self) -> None:
        """Remove all bound inputs."""
        self._inputs = {}

    def clear_binding_outputs(self) -> None:
        """Remove all bound outputs, and the results of the last run."""
        self._outputs, self._results = {}, []

    def synchronize_inputs(self) -> None:
        """Do nothing: arrays are in the host's memory."""

    def synchronize_outputs(self) -> None:
        """Do nothing: a run is complete when it returns."""
