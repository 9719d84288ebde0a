"""LiteRT's tensor details, and signatures as functions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from matloom.errors import UserError
from matloom.frontend.declaration import DeclaredTensor, Signature
from matloom.ir.graph import Array

Details = dict[str, Any]


def litert_details(tensor: DeclaredTensor, shape: tuple[int, ...]) -> Details:
    """Return the details of a tensor as LiteRT's interpreter does, with the given shape."""
    one = len(tensor.scales) == 1
    open_sizes = [size if isinstance(size, int) else -1 for size in tensor.shape]
    return {
        "name": tensor.name,
        "index": tensor.number,
        "shape": np.array(shape, np.int32),
        "shape_signature": np.array(open_sizes, np.int32),
        "dtype": np.dtype(tensor.dtype).type,
        "quantization": (tensor.scales[0], tensor.zero_points[0]) if one else (0.0, 0),
        "quantization_parameters": {
            "scales": np.array(tensor.scales, np.float32),
            "zero_points": np.array(tensor.zero_points, np.int32),
            "quantized_dimension": tensor.axis,
            "block_size": 0,
        },
        "sparsity_parameters": {},
    }


class SignatureRunner:
    """Function that runs a signature of a network; its inputs are keyword arguments."""

    def __init__(self, interpreter: Any, signature: Signature) -> None:
        self._interpreter, self._signature = interpreter, signature

    def __call__(self, **inputs: Array) -> dict[str, Array]:
        """Run the network, compiled again if an input's shape changed; return outputs by name.

        Raises
        ------
        ValueError
            A name is missing or not an input of the signature, or an array has the wrong type.
        """
        known = self._signature.inputs
        if set(inputs) != set(known):
            raise UserError(
                f"inputs must be named {sorted(known)}, not {sorted(inputs)}",
                hint="get_signature_list() lists the inputs of each signature",
            )
        for name, value in inputs.items():
            self._interpreter.resize_tensor_input(known[name], np.shape(value))
        self._interpreter.allocate_tensors()
        for name, value in inputs.items():
            self._interpreter.set_tensor(known[name], value)
        self._interpreter.invoke()
        return {
            name: self._interpreter.get_tensor(number)
            for name, number in self._signature.outputs.items()
        }

    def get_input_details(self) -> dict[str, Details]:
        """Return the details of each input, by its name in the signature."""
        return self._by_name(self._signature.inputs, self._interpreter.get_input_details())

    def get_output_details(self) -> dict[str, Details]:
        """Return the details of each output, by its name in the signature."""
        return self._by_name(self._signature.outputs, self._interpreter.get_output_details())

    @staticmethod
    def _by_name(numbers: Mapping[str, int], details: Sequence[Details]) -> dict[str, Details]:
        """Return the details of tensors by name, for the tensors' numbers by name."""
        by_number = {each["index"]: each for each in details}
        return {name: by_number[number] for name, number in numbers.items()}
