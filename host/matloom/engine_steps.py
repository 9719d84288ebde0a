"""Runs the engine steps of a program on a device."""

from collections.abc import Mapping

from matloom.arch.isa import Region
from matloom.device.bindings import read_outputs, write_inputs
from matloom.device.driver import Counters, Driver, Owner
from matloom.device.fast import FastTransport
from matloom.device.line_cost import LineCost, difference
from matloom.ir.graph import Array
from matloom.program import EngineStep, Program, Repeat


class EngineSteps:
    """Runs the engine steps (command buffers) of one program, and keeps their counters.

    Members
    -------
    runs:
        Counters of each step that has run since the session last cleared the list.
    repeated:
        Whether the last step found its weights on chip, so that it did not load them again.
    upload:
        Cost of sending the program over the serial line; None before it is sent, and for devices
        without a serial line.
    """

    def __init__(self, program: Program, driver: Driver) -> None:
        self.runs: list[Counters] = []
        self.repeated = False
        self.upload: LineCost | None = None
        self._program, self._driver = program, driver
        #: The driver's epoch after the last step: its weights are on chip until the epoch changes.
        #: None before the first step, and after a step that failed.
        self._resident: int | None = None

    def claim(self, owner: Owner) -> None:
        """Copy the program into external memory, and make `owner` the owner of that memory.

        The driver tells an owner before another one overwrites the memory. Does nothing if `owner`
        is the owner already, or the program has no engine steps.
        """
        if self._driver.owner is owner or not self._program.image:
            return
        before = self.line_cost()
        self._driver.place_regions(self._program.region_bytes)
        self._driver.write_region(Region.PROGRAM, 0, self._program.image)
        if isinstance(self._driver.transport, FastTransport):
            self._driver.transport.learn(self._program)
        self._driver.owner = owner
        self.upload = difference(self.line_cost(), before)

    def run(self, step: EngineStep, values: Mapping[str, Array]) -> dict[str, Array]:
        """Run a step, whose inputs are among `values`; return its outputs by name."""
        write_inputs(self._driver, step, values)
        self.runs.append(self._run_commands(step))
        return read_outputs(self._driver, step)

    def _run_commands(self, step: EngineStep) -> Counters:
        """Run a step, without its weight transfers if the weights are still on chip."""
        commands: EngineStep | Repeat = step
        self.repeated = step.repeat is not None and self._resident == self._driver.epoch
        if step.repeat is not None and self.repeated:
            commands = step.repeat
        self._resident = None
        counters = self._driver.run(commands.command_offset, commands.command_bytes)
        self._resident = self._driver.epoch
        return counters

    def line_cost(self) -> LineCost | None:
        """Return the cost of all transfers on the serial line so far; None without such a line."""
        return getattr(self._driver.transport, "line_cost", None)
