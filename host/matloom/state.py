"""A session's variables: on the host, or in external memory next to its program."""

from collections.abc import Mapping

import numpy as np

from matloom.arch.isa import Region
from matloom.device.driver import Driver
from matloom.device.errors import DeviceError
from matloom.errors import UserError, UserTypeError
from matloom.ir.graph import Array
from matloom.program import Program, VariableInfo


class SessionState:
    """The variables of one session, by name.

    Variables with an address in external memory are copied there before a run (`copy_in`), and back
    when another program is about to overwrite them (`copy_back`) or they are read (`values`).

    Raises
    ------
    DeviceError
        A call failed, so the variables are unknown until `reset` or `restore`.
    """

    def __init__(self, program: Program, driver: Driver) -> None:
        self._program, self._driver = program, driver
        self._placed = [item for item in program.variables if item.place is not None]
        self._kept = [item for item in program.variables if item.place is None]
        self.reset()

    def reset(self) -> None:
        """Set all variables to their initial values."""
        self._values: dict[str, Array] = self._program.initial_state()
        #: Whether external memory has the current values of the variables with an address there, so
        #: that the host's copies may be out of date.
        self._away = False
        self._lost = False

    def restore(self, values: Mapping[str, Array]) -> None:
        """Set the variables to other values; raise ValueError or TypeError if they do not match."""
        initial = self._program.initial_state()
        if set(values) != set(initial):
            raise UserError(
                f"a state must be of {sorted(initial)}, not {sorted(values)}",
                hint="restore what session.state() returned for the same network",
            )
        new_values = {name: np.array(values[name]) for name in initial}
        for name, array in new_values.items():
            wanted = initial[name]
            if array.dtype != wanted.dtype:
                raise UserTypeError(
                    f"variable {name!r} must be {wanted.dtype}, not {array.dtype}",
                    hint="restore what session.state() returned for the same network",
                )
            if array.shape != wanted.shape:
                raise UserError(
                    f"variable {name!r} must be {wanted.shape}, not {array.shape}",
                    hint="restore what session.state() returned for the same network",
                )
        self._values, self._away, self._lost = new_values, False, False

    def values(self) -> dict[str, Array]:
        """Return copies of all variables, by name."""
        self._require_known()
        if self._away:
            self._copy_from_memory()
        return {name: array.copy() for name, array in self._values.items()}

    def copy_in(self) -> dict[str, Array]:
        """Copy variables to external memory for a run; return those that stay on the host.

        The keys of the result are the names of the tensors from which the run reads the variables.
        """
        self._require_known()
        if not self._away:
            for variable in self._placed:
                region, offset = _region_and_offset(variable)
                data = np.ascontiguousarray(self._values[variable.name]).tobytes()
                self._driver.write_region(region, offset, data)
            self._away = True
        return {item.before: self._values[item.name] for item in self._kept}

    def update(self, results: Mapping[str, Array]) -> None:
        """Update the variables that stay on the host from the tensors of a finished run."""
        for item in self._kept:
            shape = self._values[item.name].shape
            self._values[item.name] = np.array(results[item.after]).reshape(shape)

    def copy_back(self) -> None:
        """Copy variables back from external memory, before another program overwrites them."""
        if self._away and not self._lost:
            self._copy_from_memory()
        self._away = False

    def mark_lost(self) -> None:
        """Mark the variables as unknown after a failed run, which may have updated some of them.

        Does nothing if all are on the host: those are only updated after a successful run.
        """
        self._lost = bool(self._placed)

    def _copy_from_memory(self) -> None:
        """Copy the variables from external memory to the host."""
        for variable in self._placed:
            old = self._values[variable.name]
            raw = self._driver.read_region(*_region_and_offset(variable), old.nbytes)
            self._values[variable.name] = np.frombuffer(raw, old.dtype).reshape(old.shape)

    def _require_known(self) -> None:
        """Raise `DeviceError` if a failed run has left the variables unknown."""
        if self._lost:
            names = ", ".join(item.name for item in self._placed)
            raise DeviceError(
                f"variables {names} must be reset or restored: a failed call left them unknown",
                hint="call session.reset(), or restore a state of session.state()",
            )


def _region_and_offset(variable: VariableInfo) -> tuple[Region, int]:
    """Return the region of external memory and the offset at which a variable is stored."""
    assert variable.place is not None
    return variable.place.region, variable.place.offset
