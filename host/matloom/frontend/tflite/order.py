"""Checks that operators read tensors that exist already, and write tensors that do not."""

from collections.abc import Sequence
from typing import Any

from matloom.frontend.errors import ModelError
from matloom.frontend.tflite.flatbuffer import numbers
from matloom.frontend.tflite.tensors import FileTensors


def require_provided(
    tensors: FileTensors,
    names: Sequence[str],
    operators: Sequence[Any],
    inputs_and_outputs: tuple[Sequence[int], Sequence[int]],
) -> None:
    """Raise `ModelError` if an operator or output reads a tensor that nothing provides.

    An interpreter would read whatever its memory happens to contain. `inputs_and_outputs` are the
    numbers of the network's inputs and outputs.
    """
    there = set(inputs_and_outputs[0])
    for at, operator in enumerate(operators):
        try:
            for number in numbers(operator, "Inputs").tolist():
                if number not in there and tensors.is_computed(number):
                    raise ModelError(
                        f"must read what an earlier operator made, not tensor {number}"
                    )
        except ModelError as error:
            raise ModelError(f"operator {at} ({names[at]}) {error}") from None
        there.update(numbers(operator, "Outputs").tolist())
    for number in inputs_and_outputs[1]:
        if number not in there and tensors.is_computed(number):
            raise ModelError(f"output {number} must be made by an operator")


def repeated_writer(
    tensors: FileTensors, names: Sequence[str], operators: Sequence[Any], inputs: Sequence[int]
) -> str | None:
    """Return a sentence about the first operator that writes an existing tensor, or None."""
    there = set(inputs)
    for at, operator in enumerate(operators):
        for number in numbers(operator, "Outputs").tolist():
            if number >= 0 and (number in there or tensors.is_constant(number)):
                return f"operator {at} ({names[at]}) writes tensor {number}, which exists already"
            there.add(number)
    return None
