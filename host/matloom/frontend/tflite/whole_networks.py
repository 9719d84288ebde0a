"""Finds networks that must run as a whole, because of side effects or shared state."""

from collections.abc import Sequence
from typing import Any

from matloom.frontend.tflite.control import CONTROL, can_run_on_host
from matloom.frontend.tflite.flatbuffer import numbers
from matloom.frontend.tflite.tensors import FileTensors

#: Operators that may have effects beyond their tensors. A network that has one runs as a whole,
#: except for IF and WHILE if `can_run_on_host` allows.
_SIDE_EFFECTS = frozenset(
    {
        *("CALL", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE", "IF"),
        "WHILE",
    }
)

#: Operators that read and write state of their own in tensors among their inputs.
_KEEP_STATE = frozenset(
    {
        *("SVDF", "RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN"),
        *("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM"),
    }
)


def reason_to_stay_whole(
    tensors: FileTensors, names: Sequence[str], operators: Sequence[Any]
) -> str | None:
    """Return a sentence that says why a network must run as a whole; None if it need not."""
    alone = (
        CONTROL
        if CONTROL & {*names} and can_run_on_host(tensors, names, operators)
        else frozenset()
    )
    for name in names:
        if name in _SIDE_EFFECTS and name not in alone:
            return f"{name} ties the network's parts together"
    count = tensors.model.SubgraphsLength()
    if not alone and count > 1 + list(names).count("CALL_ONCE"):
        return f"the network has {count} subgraphs"
    for number in range(len(tensors)):
        if number in tensors.passed or not tensors.subgraph.Tensors(number).IsVariable():
            continue
        readers = [
            name
            for name, operator in zip(names, operators, strict=True)
            if number in numbers(operator, "Inputs").tolist()
        ]
        if len(readers) > 1 or number in tensors.produced:
            return f"operators share the state of tensor {number}"
        if not _KEEP_STATE.issuperset(readers):
            return f"{readers[0]} reads the state of tensor {number}"
    return None
