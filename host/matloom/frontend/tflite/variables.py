"""Resource variables of a file: the tensors that hold them before and after a call."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from matloom.frontend.errors import ModelError, Unsupported
from matloom.ir.graph import Array, Tensor, Variable

#: Operators that declare, read or write variables, with their numbers of inputs and outputs.
VARIABLE_OPERATORS = {
    "ASSIGN_VARIABLE": (2, 0),
    "CALL_ONCE": (0, 0),
    "READ_VARIABLE": (1, 1),
    "VAR_HANDLE": (0, 1),
}

_Kind = tuple[str, tuple[int, ...]]


@dataclass
class Resources:
    """Follows the variables of one subgraph in execution order.

    Members
    -------
    names:
        The variable of each handle, by the handle's number.
    initial:
        Initial values of variables, by name.
    before:
        The tensors that read each variable before it is assigned; the first represents all.
    after:
        The tensor assigned to each variable.
    again:
        The variable of each tensor that reads one after it is assigned.
    """

    names: dict[int, str] = field(default_factory=dict)
    initial: dict[str, Array] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)
    again: dict[int, str] = field(default_factory=dict)

    def begin(self, initial: Mapping[str, Array]) -> None:
        """Record the initial values that CALL_ONCE assigns to variables."""
        if self.before or self.after:
            raise Unsupported("uses a variable before it calls its initialisation")
        self.initial.update(initial)

    def read(self, handle: int, number: int) -> int | None:
        """Return the tensor that a read copies; None if `number` itself holds the variable."""
        name = self._name(handle)
        if name in self.after:
            self.again[number] = name
            return self.after[name]
        if name not in self.initial:
            raise Unsupported(f"must read variable {name!r} after it is assigned, not before")
        first = self.before.setdefault(name, number)
        if first == number:
            return None
        self.again[number] = name
        return first

    def assign(self, handle: int, number: int) -> None:
        """Record the tensor that a variable holds from now on."""
        name = self._name(handle)
        if name in self.after:
            raise Unsupported(f"must assign variable {name!r} once in a call, not twice")
        self.after[name] = number

    def hold(self, tensor: Tensor, before: int, after: int) -> None:
        """Record the state that an operator keeps in a tensor, which starts as zero."""
        name = tensor.name if tensor.name not in self.before else f"{tensor.name} {before}"
        zero = 0 if tensor.quantisation is None else tensor.zero_point
        self.initial[name] = np.full(tensor.shape, zero, tensor.dtype)
        self.before[name], self.after[name] = before, after

    def _name(self, handle: int) -> str:
        if handle not in self.names:
            raise ModelError(f"must use the handle of a variable, not tensor {handle}")
        return self.names[handle]

    def finish(self, tensors: dict[int, Tensor], free: int) -> tuple[Variable, ...]:
        """Return the variables that calls assign; those never assigned become constants.

        A variable that is never read gets a new tensor, numbered from `free`, for its old value.

        Raises
        ------
        Unsupported
            A variable is used in several shapes or types.
        """
        self._check(tensors)
        for name in self.before.keys() - self.after.keys():
            number = self.before[name]
            tensors[number] = replace(tensors[number], data=self.initial[name])
        variables: list[Variable] = []
        for name, after in self.after.items():
            before = self.before.get(name)
            if before is None:
                before = free + len(variables)
                tensors[before] = replace(tensors[after], name=name, data=None)
            zeros = np.zeros(tensors[before].shape, tensors[before].dtype)
            initial = self.initial.get(name, zeros)
            variables.append(Variable(name=name, before=before, after=after, initial=initial))
        return tuple(variables)

    def _check(self, tensors: Mapping[int, Tensor]) -> None:
        used = [(name, number) for number, name in self.again.items()]
        used += [*self.before.items(), *self.after.items()]
        kinds: dict[str, _Kind] = {
            name: (array.dtype.name, array.shape) for name, array in self.initial.items()
        }
        for name, number in used:
            kind = tensors[number].dtype, tensors[number].shape
            initial_kind = kinds.setdefault(name, kind)
            if kind != initial_kind:
                raise Unsupported(
                    f"variable {name!r} must be {initial_kind[0]} {initial_kind[1]} wherever "
                    f"it is used, not {kind[0]} {kind[1]}"
                )
