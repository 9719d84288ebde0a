"""Converts custom operators of TensorFlow Lite files that users registered."""

from collections.abc import Callable
from typing import Any

import tflite
from flatbuffers import flexbuffers

from matloom.frontend.registered import RegisteredOperatorError, nodes_of
from matloom.frontend.tflite.flatbuffer import numbers, operator_number
from matloom.ir.graph import Node, Tensor
from matloom.kernels.expansion import complete_use
from matloom.kernels.registered import OperatorError, OperatorUse, find_registered


def custom_nodes(
    model: Any,
    item: tuple[int, str, Any],
    use: Callable[[int], Tensor],
    add: Callable[[Tensor], int],
) -> list[Node] | None:
    """Return the nodes of a registered custom operator; None for other operators.

    Parameters
    ----------
    item:
        The operator's index, name and table.
    use, add:
        `use` adds a tensor of the file to the network, `add` a tensor that the file does not have.

    Raises
    ------
    RegisteredOperatorError
        The registration does not fit the file.
    """
    index, name, operator = item
    found = find_registered(name)
    if found is None or not _is_custom(model, operator):
        return None
    ends = [
        [number for number in numbers(operator, side).tolist() if number >= 0]
        for side in ("Inputs", "Outputs")
    ]
    inputs, outputs = (tuple(use(number) for number in side) for side in ends)
    operator_use = OperatorUse(inputs=inputs, outputs=outputs, attributes=_attributes(operator))
    try:
        whole = complete_use(found, operator_use, [tensor.name for tensor in outputs])
        return nodes_of(found, whole, (ends[0], ends[1]), index, add)
    except OperatorError as error:
        raise RegisteredOperatorError(f"operator {index}: {error}", hint=error.hint) from error


def _is_custom(model: Any, operator: Any) -> bool:
    """Return whether an operator is a custom one, which its file names by a text."""
    number = operator_number(model.OperatorCodes(operator.OpcodeIndex()))
    return bool(number == tflite.BuiltinOperator.CUSTOM)


def _attributes(operator: Any) -> dict[str, Any]:
    """Return the options of a custom operator by name; bytes of unknown format as `options`."""
    content = numbers(operator, "CustomOptions").tobytes()
    if not content:
        return {}
    try:
        found = flexbuffers.Loads(content)
    # Bytes of another format raise arbitrary exceptions.
    except Exception:
        found = None
    return found if isinstance(found, dict) else {"options": content}
