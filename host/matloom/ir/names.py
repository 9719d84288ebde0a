"""Unique names for tensors, whose names in a model file may repeat."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from matloom.ir.graph import Graph

#: Separator between a tensor's name and the suffix of a derived buffer; not in unique names.
DERIVED = " | "


def derived_name(name: str, suffix: str) -> str:
    """Return the name of a buffer that is derived from a tensor with a unique name."""
    return f"{name}{DERIVED}{suffix}"


def unique_name(name: str, number: int, used: Collection[str]) -> str:
    """Return the given name if it is not taken, else the name with a number appended."""
    while name in used:
        name = f"{name}:{number}"
    return name


def unique_names(graph: Graph) -> dict[int, str]:
    """Return a unique name for each tensor of a graph.

    Unique names are kept. If several tensors share a name, the first input, or else the first
    output, keeps it; the others get their number after a colon.
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
    names: Mapping[int, str], sides: Iterable[Iterable[int]]
) -> dict[int, str]:
    """Return names of inputs and outputs by number, unique among inputs and among outputs.

    Parameters
    ----------
    names:
        The file's names of all tensors.
    sides:
        The numbers of the inputs, and those of the outputs. Tensors that share their name with
        another of the same side get their number after a colon.
    """
    sides = [frozenset(side) for side in sides]
    taken = set(names.values())
    found = {number: names[number] for side in sides for number in side}
    for side in sides:
        times = Counter(found[number] for number in side)
        for number in sorted(side):
            if times[found[number]] > 1:
                found[number] = unique_name(found[number], number, taken)
                taken.add(found[number])
    return found
