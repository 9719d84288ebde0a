"""ONNX Runtime's OrtValue and IOBinding, in the host's memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from matloom.errors import UserError
from matloom.ir.graph import Array

#: Names of types that differ from NumPy's.
_NAMES = {"float32": "float", "float64": "double", "object": "string"}


def type_name(dtype: str) -> str:
    """Return ONNX Runtime's name of a tensor type: ``tensor(float)`` for float32."""
    return f"tensor({_NAMES.get(dtype, dtype)})"


def _require_host(device_type: str) -> None:
    if device_type.lower() != "cpu":
        raise UserError(
            f"a device of memory must be 'cpu', not {device_type!r}",
            hint="bind arrays of NumPy: Matloom moves them to the engine itself",
        )


class OrtValue:
    """An array, as ONNX Runtime wraps it."""

    def __init__(self, array: Array) -> None:
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(
        numpy_obj: Array, device_type: str = "cpu", device_id: int = 0
    ) -> "OrtValue":
        """Return a value that shares an array's memory."""
        _require_host(device_type)
        return OrtValue(numpy_obj)

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> "OrtValue":
        """Return a value of a shape and a NumPy type; its elements are zero."""
        _require_host(device_type)
        return OrtValue(np.zeros(tuple(shape), element_type))

    def numpy(self) -> Array:
        """Return the array."""
        return self._array

    def update_inplace(self, np_arr: Array) -> None:
        """Copy an array of the same shape and type into this one."""
        if (np_arr.shape, np_arr.dtype) != (self._array.shape, self._array.dtype):
            wanted = f"{self._array.dtype} {self._array.shape}"
            raise UserError(
                f"a value of {wanted} must not become {np_arr.dtype} {np_arr.shape}",
                hint="give an array of this type and shape",
            )
        self._array[...] = np_arr

    def shape(self) -> list[int]:
        """Return the sizes."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """Return ONNX Runtime's name of the type."""
        return type_name(self._array.dtype.name)

    def device_name(self) -> str:
        """Return ``"cpu"``."""
        return "cpu"

    def is_tensor(self) -> bool:
        """Return True."""
        return True

    def has_value(self) -> bool:
        """Return True."""
        return True


class IOBinding:
    """Inputs and outputs of runs, bound by name.

    Arrays stay in the host's memory: a binding saves arguments, not copies. Outputs bound to a
    value of the right shape are written into it.
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
        """Raise: addresses in memory cannot be bound."""
        raise UserError(
            f"input {name!r} cannot be bound to an address",
            hint="use bind_cpu_input or bind_ortvalue_input with an array",
        )

    def bind_output(
        self, name: str, device_type: str = "cpu", device_id: int = 0, **buffer: Any
    ) -> None:
        """Request an output, in a new array for each run."""
        _require_host(device_type)
        if buffer.get("buffer_ptr") is not None:
            raise UserError(
                f"output {name!r} cannot be bound to an address",
                hint="use bind_ortvalue_output with an array",
            )
        self._outputs[name] = None

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Write an output into a value's array."""
        self._outputs[name] = ortvalue

    def run(self) -> None:
        """Run the session on the bound inputs."""
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
        """Return the outputs of the last run as arrays."""
        return [value.numpy() for value in self._results]

    def clear_binding_inputs(self) -> None:
        """Remove all bound inputs."""
        self._inputs = {}

    def clear_binding_outputs(self) -> None:
        """Remove all bound outputs."""
        self._outputs, self._results = {}, []

    def synchronize_inputs(self) -> None:
        """Do nothing: arrays are in the host's memory."""

    def synchronize_outputs(self) -> None:
        """Do nothing: a run is complete when it returns."""
