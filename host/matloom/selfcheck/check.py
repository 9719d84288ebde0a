"""Compares every tensor passed between a program's steps with the graph's definition."""

import os
from collections.abc import Mapping

import numpy as np

from matloom.device.model.engine import EngineFaultError
from matloom.errors import UserError
from matloom.ir.graph import Array, Graph
from matloom.ir.work import macs
from matloom.kernels.definition import Definition
from matloom.kernels.reference import to_declared_shape
from matloom.program import EngineStep, HostStep, Program, Verdict
from matloom.selfcheck.errors import CheckError
from matloom.selfcheck.machine import EngineAndHost
from matloom.selfcheck.stimuli import KINDS, inputs_of, values_of

#: Modes of a check: the whole program, a bounded part of it, or nothing.
CHECKS = ("full", "sample", "none")

#: Maximum multiply-accumulates of a program that mode "sample" runs as a whole, and of one that it
#: also runs with extreme inputs.
_LARGEST, _LARGEST_EXTREME = 20_000_000, 1_000_000

#: Tolerance for the host's floating-point tensors, relative to the largest number: libraries add in
#: different orders.
_TOLERANCE = 1e-5


def check_mode(check: str | None) -> str:
    """Return the mode of a check: `check`, else the variable `MATLOOM_CHECK`, else ``"sample"``.

    Raises `UserError` for a mode that is not in `CHECKS`.
    """
    mode = os.environ.get("MATLOOM_CHECK", "sample") if check is None else check
    if mode not in CHECKS:
        raise UserError(
            f"check must be one of {', '.join(CHECKS)}, not {mode!r}",
            hint="set --check, check=..., or the variable MATLOOM_CHECK to one of them",
        )
    return mode


def samples_tiles(program: Program, mode: str) -> bool:
    """Return whether `mode` is ``"sample"`` and a program so large that only parts of it run."""
    return mode == "sample" and program.engine_macs > _LARGEST


def check_program(
    program: Program, graph: Graph, names: Mapping[str, int], *, mode: str = "full", seed: int = 0
) -> Verdict:
    """Check that a program computes the same results as its graph, and return the verdict.

    The program runs on the functional model: a first call and a repeated one of a session, with
    random inputs, then with all inputs at the minimum and at the maximum of their type. Every
    tensor passed between steps is compared, those of the engine bit for bit. Variables are inputs
    and results of each call; those in external memory must be updated there when a call ends.

    A ``"sample"`` does all of that up to 20 million multiply-accumulates on the engine, but extreme
    inputs only up to one million, and not if the host runs everything. For a larger network, it
    runs single command buffers with random inputs, up to the same limit, and compares only their
    outputs.

    Parameters
    ----------
    graph:
        The graph that defines the results.
    names:
        Tensor number in the graph of each tensor of the program.
    mode:
        One of `CHECKS`.

    Raises
    ------
    CheckError
        A tensor differs; the message names the first one and its first wrong element.
    """
    if mode == "none":
        return Verdict(mode=mode)
    check = _Check(program, graph, names, seed)
    if samples_tiles(program, mode):
        share = check.check_buffers() / program.macs
        return Verdict(mode=mode, seed=seed, share=share, calls=check.calls)
    for kinds in KINDS[:1] if mode == "sample" and _leaves_out_extremes(program) else KINDS:
        check.machine.restart()
        for number, kind in enumerate(kinds):
            check.call(kind, repeated=number > 0)
    return Verdict(mode=mode, seed=seed, share=check.compared_share(), calls=check.calls)


def _leaves_out_extremes(program: Program) -> bool:
    """Return whether mode ``"sample"`` uses only random inputs.

    It does for large programs, and for programs without engine steps, whose host steps are the
    definitions themselves, or interpreters that take seconds.
    """
    on_engine = any(isinstance(step, EngineStep) for step in program.steps)
    return not on_engine or program.engine_macs > _LARGEST_EXTREME


class _Check:
    """Runs a program, computes its graph with kernels, and compares the tensors of both.

    Members
    -------
    calls:
        Number of calls, or of runs of a command buffer, so far.
    """

    def __init__(self, program: Program, graph: Graph, names: Mapping[str, int], seed: int) -> None:
        self.program, self.graph, self.names = program, graph, names
        self.definition = Definition(graph, program.config.float_rows)
        self.machine = EngineAndHost(program, seed)
        self._draw = np.random.default_rng([seed, 1])
        self.calls = 0

    def call(self, kind: str, *, repeated: bool) -> None:
        """Run every step once; compare all results, variables and outputs.

        `kind` selects the inputs, as in `stimuli.values_of`.
        """
        self.calls += 1
        inputs = inputs_of(self.graph, kind, self._draw)
        self.definition.reset(inputs)
        where = f"{_call_name(repeated)}, {kind} inputs"
        known = {**self.machine.constants}
        known.update({self._tensor_name(number): array for number, array in inputs.items()})
        self.machine.write_variables(known)
        for step in self.program.steps:
            self._run(step, known, where, repeated=repeated)
        # A step must not change variables that it does not replace.
        for name, array in self.machine.read_variables().items():
            self._compare(name, array, exact=True, where=f"unchanged variable, {where}")
        for variable in self.program.variables:
            self._compare(variable.after, known[variable.after], exact=False, where=where)
        for info in self.program.outputs:
            self._compare(info.key, known[info.key], exact=False, where=where)

    def check_buffers(self) -> int:
        """Check single command buffers in random order, up to a limit; return their MACs."""
        steps = [step for step in self.program.steps if isinstance(step, EngineStep)]
        done = 0
        for at in self._draw.permutation(len(steps)):
            macs = self._macs_of(steps[at])
            if done + macs <= _LARGEST:
                self._check_buffer(steps[at])
                done += macs
        return done

    def compared_share(self) -> float:
        """Return the share of the program's MACs whose results were compared.

        Results of steps without an interpreter are drawn at random, so they are not compared.
        """
        steps = [step for step in self.program.steps if self.machine.draws_outputs(step)]
        names = {step.outputs[0] for step in steps if isinstance(step, HostStep)}
        lost = sum(layer.macs for layer in self.program.layers if layer.name in names)
        return 1 - lost / self.program.macs if self.program.macs else float(not steps)

    def _macs_of(self, step: EngineStep) -> int:
        """Return the number of MACs of the operators between a step's inputs and its outputs."""
        self.definition.reset(dict.fromkeys(self._input_numbers(step), np.empty(0)))
        nodes = self.definition.needed_nodes([self.names[item.name] for item in step.outputs])
        return sum(macs(self.graph, self.graph.nodes[at]) for at in nodes)

    def _input_numbers(self, step: EngineStep) -> list[int]:
        """Return the tensor numbers of a step's inputs."""
        return [self.names[binding.name] for binding in step.inputs]

    def _check_buffer(self, step: EngineStep) -> None:
        """Run one command buffer on random inputs, as a first call and as a repeated one."""
        self.machine.restart()
        for repeated in (False, True):
            self.calls += 1
            tensors = self.graph.tensors
            arrays = {
                number: values_of(tensors[number], "random", self._draw)
                for number in self._input_numbers(step)
            }
            self.definition.reset(arrays)
            known = {binding.name: arrays[self.names[binding.name]] for binding in step.inputs}
            self.machine.write_variables(known)
            self._run(
                step, known, f"{_call_name(repeated)} of one command buffer", repeated=repeated
            )

    def _run(
        self, step: EngineStep | HostStep, values: dict[str, Array], where: str, *, repeated: bool
    ) -> None:
        """Run a step, compare its results, and add them to `values`; `where` is for messages.

        The definition continues from the step's own results, so an error is reported only once.
        """
        try:
            found = self.machine.run(step, values, repeated=repeated)
        except EngineFaultError as fault:
            raise CheckError(f"the engine stops: {fault} ({where})") from None
        for name, array in found.items():
            if not self.machine.draws_outputs(step):
                self._compare(name, array, exact=isinstance(step, EngineStep), where=where)
            number = self.names[name]
            shape = self.graph.tensors[number].shape
            self.definition.replace(number, to_declared_shape(array, shape))
        values.update(found)

    def _tensor_name(self, number: int) -> str:
        """Return the name of the tensor with this number."""
        return next(name for name, at in self.names.items() if at == number)

    def _compare(self, name: str, actual: Array, *, exact: bool, where: str) -> None:
        """Raise `CheckError` if a tensor differs from the one that the definitions give."""
        number = self.names[name]
        expected = self.definition.value(number)
        if actual.dtype != expected.dtype or actual.size != expected.size:
            raise CheckError(
                f"tensor {name!r} must be {expected.dtype} {expected.shape}, not {actual.dtype} "
                f"{actual.shape} ({where})",
                name,
            )
        actual = actual.reshape(expected.shape)
        wrong = _differences(expected, actual, exact=exact)
        if not wrong.any():
            return
        index = tuple(int(at) for at in np.argwhere(wrong)[0])
        raise CheckError(
            f"{self._producer_text(number)}tensor {name!r}, element {index}: expected "
            f"{expected[index].item()}, got {actual[index].item()}; {int(wrong.sum()):,} of "
            f"{wrong.size:,} elements are wrong ({where})",
            name,
        )

    def _producer_text(self, number: int) -> str:
        """Return the operator that makes a tensor, and a comma, for messages; "" if none does."""
        at = self.graph.producers.get(number)
        return "" if at is None else f"{self.graph.nodes[at]}, "


def _call_name(repeated: bool) -> str:
    """Return the name of a call for messages: first, or repeated."""
    return "a repeated call" if repeated else "the first call"


def _differences(expected: Array, actual: Array, *, exact: bool) -> Array:
    """Return a mask of the elements that differ; NaN equals NaN.

    Unless `exact`, floating-point numbers may differ by a tolerance.
    """
    unequal: Array = np.asarray(expected != actual)
    if expected.dtype == np.uint16:
        # In bf16 patterns, +0 and -0 are equal numbers.
        return np.asarray(unequal & ((expected | actual) & 0x7FFF != 0))
    if not np.issubdtype(expected.dtype, np.floating):
        return unequal
    unequal &= ~(np.isnan(expected) & np.isnan(actual))
    if exact or not unequal.any():
        return unequal
    finite = expected[np.isfinite(expected)]
    bound = _TOLERANCE * float(np.abs(finite).max(initial=1e-30))
    with np.errstate(invalid="ignore"):
        return np.asarray(unequal & ~(np.abs(expected - actual) <= bound))
