"""Unique names for tensors, whose names in a model file may repeat."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from matloom.ir.graph import Graph

#: Separator between a tensor's name and the suffix of a derived buffer; `unique_names` avoids it.
DERIVED = " | "


def derived_name(name: str, suffix: str) -> str:
    """Return the name of a buffer that is derived from a tensor with a unique name."""
    return f"{name}{DERIVED}{suffix}"


def unique_name(name: str, number: int, used: Collection[str]) -> str:
    """Return a name that is not in `used`, by appending ``:number`` as often as necessary."""
    while name in used:
        name = f"{name}:{number}"
    return name


def unique_names(graph: Graph) -> dict[int, str]:
    """Return a unique name for each tensor of a graph, by tensor number.

    Unique names are kept, but `DERIVED` in a name becomes ``_``. If several tensors share a name,
    the first input, or else the first output, keeps it; the others get their number after a colon.
    """
    plain = {number: tensor.name.replace(DERIVED, "_") for number, tensor in graph.tensors.items()}
    times = Counter(plain.values())
    owners: dict[str, int] = {}
    for number in (*graph.inputs, *graph.outputs):
        owners.setdefault(plain[number], number)
    taken = set(times)
    found = {}
    for number, name in plain.items():
        if times[name] > 1 and owners.get(name) != number:
            name = unique_name(name, number, taken)
            taken.add(name)
        found[number] = name
    return found


def input_and_output_names(
    names: Mapping[int, str], inputs_and_outputs: Iterable[Iterable[int]]
) -> dict[int, str]:
    """Return names of inputs and outputs by tensor number, unique among inputs and among outputs.

    Parameters
    ----------
    names:
        Names of all tensors in the file, by number.
    inputs_and_outputs:
        Tensor numbers of the inputs, and of the outputs. Inputs that share a name get their numbers
        after a colon; so do outputs.
    """
    sides = [frozenset(side) for side in inputs_and_outputs]
    taken = set(names.values())
    found = {number: names[number] for side in sides for number in side}
    for side in sides:
        times = Counter(found[number] for number in side)
        for number in sorted(side):
            if times[found[number]] > 1:
                found[number] = unique_name(found[number], number, taken)
                taken.add(found[number])
    return found
