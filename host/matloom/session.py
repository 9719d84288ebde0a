"""Sessions: run a program on a device call by call, and keep state between calls."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from matloom.device.driver import Counters, Driver
from matloom.device.errors import DeviceClosedError
from matloom.device.fast import FastTransport
from matloom.device.line_cost import LineCost, difference
from matloom.engine_steps import EngineSteps
from matloom.intermediates import (
    Names,
    compute_tensors,
    kernels_are_exact,
    pick_tensors,
    tensor_numbers,
)
from matloom.ir.graph import Array
from matloom.kernels.real import RealNumbers
from matloom.kernels.reference import to_declared_shape
from matloom.kernels.step import HostSteps
from matloom.loop import LastIteration, LoopRun
from matloom.pre import prepare_inputs, preprocessing_of
from matloom.program import EngineStep, Program
from matloom.program.samples import concatenate_results, require_single, samples_of
from matloom.program.verify import verify_program
from matloom.report import Report, make_report
from matloom.state import SessionState


class Session(RealNumbers):
    """Session that runs a program on a device and keeps the network's state between runs.

    Inputs and outputs have the names, shapes and dtypes of the model file; an input and an output
    may share a name. Two inputs or outputs of one name get their tensor numbers after a colon:
    ``x:3``; a tensor without a name is ``tensor_3``. `Program.inputs` and `Program.outputs` list
    them in the file's order. A streaming network keeps its state between runs and samples until
    `reset`; `state` and `restore` access its variables. Weights that fit stay on chip until another
    program runs, a reset, or a failed run. Sessions and threads may share a driver.

    Raises
    ------
    ProgramError, VerifyError
        The program is for another configuration, or its instructions are illegal or have hazards.
    DeviceClosedError
        The session or its device was closed, before or during a call.
    InterpreterError
        An operator needs a reference interpreter, but none that supports it is installed.
    """

    def __init__(
        self, program: Program, driver: Driver, device: str, *, owns_device: bool = False
    ) -> None:
        program.require(driver.config)
        verify_program(program)
        preprocessing_of(program)
        self.program, self.driver, self.device = program, driver, device
        self._host = HostSteps(program)
        self._loops = {number: LoopRun(program, number, self._for_loop) for number in program.loops}
        self._state = SessionState(program, driver)
        self._engine = EngineSteps(program, driver)
        self._link: LineCost | None = None
        self._owns_device, self._closed = owns_device, False
        #: Sessions whose programs also output intermediate tensors, by the numbers of these.
        self._extended: dict[frozenset[int], Session] = {}
        #: Session that this one was made for; if it is closed, so is this one.
        self._base: Session | None = None
        #: Session that ran last: this one, or one of `_extended`.
        self._last_session: Session = self
        with driver.lock:
            self._engine.claim(self)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session, and close its device if `load` opened it; a second call does nothing.

        Any thread may call it at any time; leaving `with`, a signal handler, garbage collection and
        the end of the interpreter do the same. A call that is running in another thread stops with
        `DeviceClosedError` and without outputs, and `close` waits for it. That takes about a
        second, or until the host has finished its operator (on device ``fast``, its step). Later
        calls raise `DeviceClosedError` at once. A device shared with other sessions stays open.
        """
        self._closed = True
        if self._owns_device:
            self.driver.close()
        with self.driver.lock:
            if self.driver.owner in (self, *self._extended.values()):
                self.driver.owner = None

    def run(self, inputs: Array | Mapping[str, Array], outputs: Names | None = None) -> Any:
        """Run the network; return its outputs, or any of its tensors.

        Pass a mapping by name to get a mapping, or, for a network with one input and one output, an
        array to get an array. If the leading axis is longer than the model's batch, the network
        runs sample by sample and the outputs are concatenated along their leading axis.

        An input with preprocessing takes raw data: one image or waveform, an array of several of
        one size, or a list.

        Parameters
        ----------
        outputs:
            Names of tensors in the model file, or ``"all"`` for the results of all operators; the
            return value is then a mapping. Device ``fast`` computes them with the operators'
            kernels. For other devices Matloom compiles a program that also stores these tensors,
            once for each set of names; this takes as long as the first compilation. That program
            replaces the first one in memory, and the report gives its cycles.

        Raises
        ------
        ValueError, TypeError
            A name, shape or dtype does not match the model.
        """
        program = self.program
        if isinstance(inputs, Mapping):
            inputs = prepare_inputs(program, inputs)
            return self._run_samples(inputs) if outputs is None else self._tensors(inputs, outputs)
        require_single(program, outputs=outputs is None)
        named = prepare_inputs(program, {program.inputs[0].name: inputs})
        if outputs is not None:
            return self._tensors(named, outputs)
        return self._run_samples(named)[program.outputs[0].name]

    def _run_samples(
        self, inputs: Mapping[str, Array], numbers: Mapping[str, int] | None = None
    ) -> dict[str, Array]:
        """Run each sample; return all outputs, or the tensors `numbers`, computed by kernels."""
        self._require_open()
        self._last_session, results = self, []
        for sample in samples_of(self.program, inputs):
            try:
                with self.driver.stoppable(self._is_closed):
                    results.append(self._run_one(sample, numbers))
            except DeviceClosedError:
                # If the session was closed, say so, whatever call noticed it.
                self._require_open()
                raise
        return concatenate_results(results)

    def _tensors(self, inputs: Mapping[str, Array], names: Names) -> dict[str, Array]:
        """Run the network; return the named tensors, by name."""
        wanted, origin = tensor_numbers(self.program, names), self.program.origin
        if origin is None:
            results = self._run_samples(inputs)
            return {name: results[name] for name in wanted}
        if isinstance(self.driver.transport, FastTransport) and kernels_are_exact(self.program):
            return self._run_samples(inputs, wanted)
        ends = (*origin.source.inputs, *origin.source.outputs)
        session = self._session_storing(frozenset(wanted.values()).difference(ends))
        results = self._run_samples(inputs) if session is self else self._run_as(session, inputs)
        return pick_tensors(wanted, session.program, inputs, results)

    def _for_loop(self, program: Program) -> "Session":
        """Return a session for a loop's body or condition, which is closed once this one is."""
        session = Session(program, self.driver, self.device)
        session._base = self
        return session

    def iterate(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Run the program once, as one iteration of a loop; return its outputs by name."""
        return self._run_one(inputs, None)

    def _session_storing(self, numbers: frozenset[int]) -> "Session":
        """Return a session that also outputs tensors `numbers`; without any, return `self`."""
        if not numbers:
            return self
        with self.driver.lock:
            if numbers not in self._extended:
                self._require_open()
                assert self.program.origin is not None
                program = self.program.origin.with_outputs(sorted(numbers))
                self._extended[numbers] = session = Session(program, self.driver, self.device)
                session._base = self
            return self._extended[numbers]

    def _run_as(self, session: "Session", inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run another session of this network, which starts from and updates this one's state."""
        with self.driver.lock:
            session._host.reuse_interpreters(self._host)
            session.restore(self._state.values())
            try:
                results = session._run_samples(inputs)
            except BaseException:
                self._state.mark_lost()
                raise
            self._state.restore(session._state.values())
        self._last_session = session
        return results

    def _is_closed(self) -> bool:
        """Return whether this session was closed, or the one that it was made for."""
        return self._closed or (self._base is not None and self._base._is_closed())

    def _require_open(self) -> None:
        """Raise `DeviceClosedError` if this session was closed."""
        if self._is_closed():
            raise DeviceClosedError("the session was closed", hint="load the network again")

    def save_regions(self) -> None:
        """Save the variables before external memory is overwritten; called by the driver."""
        self._state.copy_back()

    def _run_one(
        self, inputs: dict[str, Array], numbers: Mapping[str, int] | None
    ) -> dict[str, Array]:
        """Run every step of the program once, for one sample; return as `_run_samples` does."""
        state = {} if numbers is None else self._state.values()
        self._engine.claim(self)
        before = self._engine.line_cost()
        entering = {info.key: inputs[info.name] for info in self.program.inputs}
        known = {**self._host.constants, **entering, **self._state.copy_in()}
        self._engine.runs = []
        try:
            for number, step in enumerate(self.program.steps):
                self._require_open()
                if isinstance(step, EngineStep):
                    known.update(self._engine.run(step, known))
                elif number in self._loops:
                    known.update(self._loops[number].run(known))
                    # The body's program may be in memory now.
                    self._engine.claim(self)
                    self._state.copy_in()
                else:
                    known.update(self._host.run(step, known))
        except BaseException:
            self._state.mark_lost()
            raise
        self._state.update(known)
        self._link = difference(self._engine.line_cost(), before)
        if numbers is not None:
            initial = {item.before: state[item.name] for item in self.program.variables}
            return compute_tensors(self.program, numbers, {**known, **initial})
        infos = self.program.outputs
        return {info.name: to_declared_shape(known[info.key], info.shape) for info in infos}

    def reset(self) -> None:
        """Set variables, and the state within opaque operators, to their initial values."""
        self._host = HostSteps(self.program)
        self._state.reset()

    @property
    def state(self) -> dict[str, Array]:
        """Copies of the network's variables, by name.

        The internal state of opaque operators is not included.

        Raises
        ------
        DeviceError
            A call failed, so the state is unknown until `reset` or `restore`.
        """
        with self.driver.lock:
            return self._state.values()

    def restore(self, state: Mapping[str, Array]) -> None:
        """Set the network's variables to values that `state` returned.

        Raises
        ------
        ValueError, TypeError
            A name, shape or dtype does not match a variable.
        """
        self._state.restore(state)

    @property
    def counted(self) -> tuple[Counters, ...]:
        """Counters and completion times of each engine step of the last sample."""
        return tuple(self._last_session._engine.runs)

    @property
    def last_iterations(self) -> dict[str, LastIteration]:
        """The last iteration of each loop that had one, by the name of its operator."""
        return {
            loop.name: loop.last_iteration()
            for loop in self._last_session._loops.values()
            if loop.iterations
        }

    def report(self) -> Report:
        """Return the cost of the last sample."""
        if self._last_session is not self:
            more = self._last_session.program.outputs[len(self.program.outputs) :]
            return replace(self._last_session.report(), stored=tuple(info.name for info in more))
        report = make_report(
            self.program,
            self.device,
            self._engine.runs,
            resident=self._engine.repeated,
            ran_on=getattr(self.driver.transport, "external_memory", None),
            kernels=isinstance(self.driver.transport, FastTransport),
        )
        for loop in self._loops.values():
            report = loop.add_to(report)
        return replace(report, link=self._link, upload=self._engine.upload)
