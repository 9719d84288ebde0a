"""Resource variables of a file, and the tensors that hold them before and after a call."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from matloom.frontend.errors import ModelError, Unsupported
from matloom.ir.graph import Array, Tensor, Variable

#: Operators that declare, read, write or initialise variables, with their numbers of inputs and
#: outputs.
VARIABLE_OPERATORS = {
    "ASSIGN_VARIABLE": (2, 0),
    "CALL_ONCE": (0, 0),
    "READ_VARIABLE": (1, 1),
    "VAR_HANDLE": (0, 1),
}

_Kind = tuple[str, tuple[int, ...]]


@dataclass
class Resources:
    """The variables of one subgraph, followed in order of execution.

    Members
    -------
    names:
        Name of the variable of each handle, by the handle's tensor number.
    initial:
        Initial values of variables, by name.
    before:
        Number of the tensor that holds each variable at the start of a call: that of its first
        read.
    after:
        Number of the tensor that holds each variable at the end of a call.
    copies:
        Names of variables, by the numbers of tensors that are copies of them: those of all other
        reads.
    """

    names: dict[int, str] = field(default_factory=dict)
    initial: dict[str, Array] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)
    copies: dict[int, str] = field(default_factory=dict)

    def begin(self, initial: Mapping[str, Array]) -> None:
        """Record the initial values that CALL_ONCE assigns to variables, by name.

        Raises
        ------
        Unsupported
            A variable was already read or assigned.
        """
        if self.before or self.after:
            raise Unsupported("uses a variable before it calls its initialisation")
        self.initial.update(initial)

    def read(self, handle: int, number: int) -> int | None:
        """Record that tensor `number` reads a variable; return the tensor that it copies.

        The result is None if `number` itself holds the variable at the start of a call.

        Raises
        ------
        Unsupported
            The variable has no initial value, and was not assigned yet.
        """
        name = self._variable_name(handle)
        if name in self.after:
            self.copies[number] = name
            return self.after[name]
        if name not in self.initial:
            raise Unsupported(f"must read variable {name!r} after it is assigned, not before")
        first = self.before.setdefault(name, number)
        if first == number:
            return None
        self.copies[number] = name
        return first

    def assign(self, handle: int, number: int) -> None:
        """Record that a variable holds the value of tensor `number` at the end of a call.

        Raises
        ------
        Unsupported
            The variable is assigned twice in a call.
        """
        name = self._variable_name(handle)
        if name in self.after:
            raise Unsupported(f"must assign variable {name!r} once in a call, not twice")
        self.after[name] = number

    def hold(self, tensor: Tensor, before: int, after: int) -> None:
        """Record an operator's internal state, 0 at first, in tensors `before` and `after` a call.

        `before` and `after` are the numbers of the tensors that hold it before and after a call.
        """
        name = tensor.name if tensor.name not in self.before else f"{tensor.name} {before}"
        zero = 0 if tensor.quantisation is None else tensor.zero_point
        self.initial[name] = np.full(tensor.shape, zero, tensor.dtype)
        self.before[name], self.after[name] = before, after

    def _variable_name(self, handle: int) -> str:
        """Return the variable's name of a handle, a tensor that refers to a variable."""
        if handle not in self.names:
            raise ModelError(f"must use the handle of a variable, not tensor {handle}")
        return self.names[handle]

    def finish(self, tensors: dict[int, Tensor], free: int) -> tuple[Variable, ...]:
        """Return the variables that calls assign.

        Variables that are never assigned become constants in `tensors`.

        A variable that is never read gets a new tensor, numbered from `free`, for its old value.

        Raises
        ------
        Unsupported
            A variable is used in several shapes or types.
        """
        self._require_same_kinds(tensors)
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

    def _require_same_kinds(self, tensors: Mapping[int, Tensor]) -> None:
        """Raise `Unsupported` if a variable is used with different types or shapes."""
        used = [(name, number) for number, name in self.copies.items()]
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
