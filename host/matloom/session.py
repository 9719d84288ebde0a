"""A program on a device: runs it call by call, and keeps what stays between calls."""

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

from matloom.arch.isa import Region
from matloom.device.bindings import read_outputs, write_inputs
from matloom.device.driver import Counters, Driver
from matloom.device.errors import DeviceClosedError
from matloom.device.fast import FastTransport
from matloom.device.line_cost import LineCost, difference
from matloom.intermediates import Names, chosen, computed, on_the_way, wanted_tensors
from matloom.ir.graph import Array
from matloom.kernels.real import RealNumbers
from matloom.kernels.reference import as_declared
from matloom.kernels.step import HostSteps
from matloom.program import EngineStep, Program, Repeat
from matloom.program.samples import joined, samples_of
from matloom.program.verify import verify_program
from matloom.report import Report, make_report
from matloom.state import SessionState

__all__ = ["Session"]


class Session(RealNumbers):
    """A program on a device.

    Inputs and outputs have the names, shapes and dtypes of the model file; an input and an output
    may share a name. Where two inputs or two outputs share one, each has its tensor's number after
    a colon: ``x:3``; one without a name is ``tensor_3``. `Program.inputs` and `Program.outputs`
    list them in the file's order. What a streaming network remembers stays from run to run, and
    from sample to sample of one run, until `reset`; `state` and `restore` are for its variables by
    name. Weights that fit stay on chip until another program, a reset or a fault; several
    sessions, and threads, may share a driver.

    Errors
    ------
    ProgramError, VerifyError
        The program is for another configuration, or its instructions are illegal or have hazards.
    DeviceClosedError
        The session, or its device, was closed, before a call or while it was under way.
    InterpreterError
        An operator needs a reference interpreter, and none is installed or takes it.
    """

    def __init__(self, program: Program, driver: Driver, device: str, *, own: bool = False) -> None:
        program.require(driver.config)
        verify_program(program)
        self.program, self.driver, self.device = program, driver, device
        self._host = HostSteps(program)
        self._state = SessionState(program, driver)
        self._runs: list[Counters] = []
        self._repeated = False
        self._link: LineCost | None = None
        self._upload: LineCost | None = None
        #: The driver's epoch at the end of the last run.
        self._resident: int | None = None
        self._own, self._closed = own, False
        #: Sessions whose programs put out further tensors, by these; and the last that ran.
        self._wider: dict[frozenset[int], Session] = {}
        self._base: Session | None = None
        self._ran: Session = self
        with driver.lock:
            self._claim()

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session, and close a device that `load` opened for it; twice does nothing more.

        Any thread may close, at any time, and `with`, a signal's handler, garbage collection and
        the interpreter's end do the same. A call that another thread has under way is stopped: it
        ends with `DeviceClosedError` and without outputs, and `close` returns after it. That takes
        about a second, or as long as what the host has begun: an operator, on device ``fast`` a
        step. Later calls raise `DeviceClosedError` at once. A device that others share stays open
        and goes on running their programs.
        """
        self._closed = True
        if self._own:
            self.driver.close()
        with self.driver.lock:
            if self.driver.owner in (self, *self._wider.values()):
                self.driver.owner = None

    def run(self, inputs: Array | Mapping[str, Array], outputs: Names | None = None) -> Any:
        """Return the network's outputs for its inputs, or any of its tensors.

        A mapping of names gives a mapping; one array gives one array, for a network of one
        input and one output. Where the leading axis is longer than the model's batch, the
        network runs sample by sample and the outputs are joined along their leading axis.

        Parameters
        ----------
        outputs:
            Names of tensors of the model file, or ``"all"`` for everything that an operator makes;
            the result is then a mapping of them. Device ``fast`` computes them by the operators'
            kernels. Other devices have a program compiled that stores them, once for each set of
            names, which takes as long as the first compilation, and puts it into memory instead
            of the other; its cycles are then the report's.

        Errors
        ------
        ValueError, TypeError
            A name, shape or dtype is not the model's.
        """
        program = self.program
        if isinstance(inputs, Mapping):
            return self._run_samples(inputs) if outputs is None else self._tensors(inputs, outputs)
        if len(program.inputs) != 1 or (outputs is None and len(program.outputs) != 1):
            names = ", ".join(info.name for info in program.inputs)
            ends = f"{len(program.inputs)} inputs and {len(program.outputs)} outputs"
            raise ValueError(
                f"inputs must be a mapping of {names} for a network of {ends}, not one array"
            )
        named = {program.inputs[0].name: inputs}
        if outputs is not None:
            return self._tensors(named, outputs)
        return self._run_samples(named)[program.outputs[0].name]

    def _run_samples(
        self, inputs: Mapping[str, Array], wanted: Mapping[str, int] | None = None
    ) -> dict[str, Array]:
        """Return outputs, or tensors by their numbers in the network, which the kernels compute."""
        self._require_open()
        self._ran, results = self, []
        for sample in samples_of(self.program, inputs):
            try:
                with self.driver.stoppable(self._ended):
                    results.append(self._run_one(sample, wanted))
            except DeviceClosedError:
                # Whatever was called last, the reason is this one.
                self._require_open()
                raise
        return joined(results)

    def _tensors(self, inputs: Mapping[str, Array], names: Names) -> dict[str, Array]:
        """Return tensors of the network by name."""
        wanted, origin = wanted_tensors(self.program, names), self.program.origin
        if origin is None:
            results = self._run_samples(inputs)
            return {name: results[name] for name in wanted}
        if isinstance(self.driver.transport, FastTransport) and on_the_way(self.program):
            return self._run_samples(inputs, wanted)
        ends = (*origin.source.inputs, *origin.source.outputs)
        session = self._storing(frozenset(wanted.values()).difference(ends))
        results = self._run_samples(inputs) if session is self else self._run_as(session, inputs)
        return chosen(wanted, session.program, inputs, results)

    def _storing(self, numbers: frozenset[int]) -> "Session":
        """Return a session whose program also puts out these tensors: this one where none."""
        if not numbers:
            return self
        with self.driver.lock:
            if numbers not in self._wider:
                self._require_open()
                assert self.program.origin is not None
                program = self.program.origin.with_outputs(sorted(numbers))
                self._wider[numbers] = session = Session(program, self.driver, self.device)
                session._base = self
            return self._wider[numbers]

    def _run_as(self, session: "Session", inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run another program of this network, which goes on with what this one remembers."""
        with self.driver.lock:
            session._host.share(self._host)
            session.restore(self._state.values())
            try:
                results = session._run_samples(inputs)
            except BaseException:
                self._state.lose()
                raise
            self._state.restore(session._state.values())
        self._ran = session
        return results

    def _ended(self) -> bool:
        return self._closed or (self._base is not None and self._base._closed)

    def _require_open(self) -> None:
        if self._ended():
            raise DeviceClosedError("the session was closed: load the network again to run it")

    def leave(self) -> None:
        """Give external memory up to another program; the driver asks for it."""
        self._state.leave()

    def _claim(self) -> None:
        """Put the program into external memory, unless it is there."""
        if self.driver.owner is not self:
            before = self._line_cost()
            self.driver.allocate(self.program.region_bytes)
            self.driver.write_region(Region.PROGRAM, 0, self.program.image)
            if isinstance(self.driver.transport, FastTransport):
                self.driver.transport.learn(self.program)
            self.driver.owner = self
            self._upload = difference(self._line_cost(), before)

    def _line_cost(self) -> LineCost | None:
        return getattr(self.driver.transport, "line_cost", None)

    def _run_one(
        self, inputs: dict[str, Array], wanted: Mapping[str, int] | None
    ) -> dict[str, Array]:
        """Run every step once."""
        state = {} if wanted is None else self._state.values()
        self._claim()
        before = self._line_cost()
        given = {info.key: inputs[info.name] for info in self.program.inputs}
        known = {**self._host.constants, **given, **self._state.arrive()}
        self._runs = []
        try:
            for step in self.program.steps:
                self._require_open()
                if isinstance(step, EngineStep):
                    known.update(self._run_engine(step, known))
                else:
                    known.update(self._host.run(step, known))
        except BaseException:
            self._state.lose()
            raise
        self._state.follow(known)
        self._link = difference(self._line_cost(), before)
        if wanted is not None:
            begun = {item.before: state[item.name] for item in self.program.variables}
            return computed(self.program, wanted, {**known, **begun})
        infos = self.program.outputs
        return {info.name: as_declared(known[info.key], info.shape) for info in infos}

    def _run_engine(self, step: EngineStep, known: dict[str, Array]) -> dict[str, Array]:
        write_inputs(self.driver, step, known)
        self._runs.append(self._run_commands(step))
        return read_outputs(self.driver, step)

    def _run_commands(self, step: EngineStep) -> Counters:
        """Run a step, the shorter way where nothing touched its weights since the last time."""
        commands: EngineStep | Repeat = step
        self._repeated = step.repeat is not None and self._resident == self.driver.epoch
        if step.repeat is not None and self._repeated:
            commands = step.repeat
        self._resident = None
        counters = self.driver.run(commands.command_offset, commands.command_bytes)
        self._resident = self.driver.epoch
        return counters

    def reset(self) -> None:
        """Forget what the network remembers from run to run: variables, and inside operators."""
        self._host = HostSteps(self.program)
        self._state.reset()

    @property
    def state(self) -> dict[str, Array]:
        """The network's variables, by name: a copy.

        What opaque operators remember is not among them.

        Errors
        ------
        DeviceError
            A call failed, so it is unknown until `reset` or `restore`.
        """
        with self.driver.lock:
            return self._state.values()

    def restore(self, state: Mapping[str, Array]) -> None:
        """Let the network's variables hold what `state` once gave.

        Errors
        ------
        ValueError, TypeError
            A name, shape or dtype is not a variable's.
        """
        self._state.restore(state)

    def report(self) -> Report:
        """Return what the last sample cost."""
        if self._ran is not self:
            more = self._ran.program.outputs[len(self.program.outputs) :]
            return replace(self._ran.report(), stored=tuple(info.name for info in more))
        report = make_report(
            self.program,
            self.device,
            self._runs,
            resident=self._repeated,
            ran_on=getattr(self.driver.transport, "external_memory", None),
            kernels=isinstance(self.driver.transport, FastTransport),
        )
        return replace(report, link=self._link, upload=self._upload)
