"""Runs host steps of a Program with the kernels."""

from collections.abc import Mapping

from matloom.arch.program_file import LOOP
from matloom.ir.graph import Array, Op
from matloom.kernels.interpreter import node_inputs, run_node
from matloom.kernels.reference import ReferenceRun
from matloom.program import HostStep, Program
from matloom.program.node import step_graph, tensors_by_name


class HostSteps:
    """Runs a program's host steps (operators outside the engine), except loops.

    Raises
    ------
    ProgramError
        A step names an operator without a kernel, or a tensor that the program does not know.
    InterpreterError
        A step needs a reference interpreter, but none can run it.
    """

    def __init__(self, program: Program) -> None:
        tensors = tensors_by_name(program)
        graphs = {
            id(step): step_graph(step, tensors)
            for step in program.steps
            if isinstance(step, HostStep) and step.operator != LOOP
        }
        self._graphs = {key: (graph, graph.nodes[0]) for key, graph in graphs.items()}
        self._references = {
            key: ReferenceRun(graph, node)
            for key, (graph, node) in self._graphs.items()
            if node.op is Op.REFERENCE
        }
        #: Steps that interpreters run, by their outputs and key.
        self._opaque = [
            (step.outputs, id(step)) for step in program.steps if id(step) in self._references
        ]
        #: Constants by name, for a network that outputs one.
        self.constants = {
            name: tensor.data for name, tensor in tensors.items() if tensor.data is not None
        }

    def reuse_interpreters(self, other: "HostSteps") -> None:
        """Use the interpreters of another program of the same network, with their state.

        Steps are matched by the names of their outputs.
        """
        named = {key[0]: other._references[key[1]] for key in other._opaque}
        for outputs, key in self._opaque:
            if outputs in named:
                self._references[key] = named[outputs]

    def run(self, step: HostStep, values: Mapping[str, Array]) -> dict[str, Array]:
        """Run a step, whose inputs are among `values`; return its outputs by name."""
        graph, node = self._graphs[id(step)]
        arrays = {number: values[name] for number, name in enumerate(step.inputs) if name in values}
        if node.op is Op.REFERENCE:
            results = self._references[id(step)].run(node_inputs(graph, node, arrays))
            return dict(zip(step.outputs, results, strict=True))
        found = run_node(graph, node, arrays)
        return {step.outputs[at]: found[number] for at, number in enumerate(node.outputs)}
