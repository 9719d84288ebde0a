"""Compares a network with the runtime of its format, tensor by tensor."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.table import Table

from matloom import frontend
from matloom.errors import UserError
from matloom.ir.graph import Array, Graph, Node, Op
from matloom.ir.indices import graph_index_lengths
from matloom.kernels.interpreter import check_input, initial_state, interpret, next_state
from matloom.printable import printable
from matloom.terminal.tables import count_text
from matloom.tools.interface import random_array
from matloom.tools.layer_errors import OperatorErrors, layer_errors, operator_name, real_numbers
from matloom.tools.references import MicroReference, open_reference

#: Function that computes a graph's tensors from its inputs, both by number. The result may lack
#: tensors.
Tensors = Callable[[Mapping[int, Array]], Mapping[int, Array]]

#: Default number of random samples for a network with state.
_RANDOM_SAMPLES = 4


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first element of a tensor that differs."""

    operator: str
    tensor: str
    sample: int
    index: tuple[int, ...]
    expected: int | float
    given: int | float
    reference: str = MicroReference.name

    def __str__(self) -> str:
        return (
            f"sample {self.sample}, {self.operator}, tensor {self.tensor}, index {self.index}: "
            f"{self.reference} has {self.expected}, Matloom {self.given}"
        )


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Result of a comparison; `first` is None if everything compared is equal.

    `reference` is the name of the runtime compared with. `caveat` is a sentence on a known reason
    for differences, or empty.
    """

    network: str
    samples: int
    layers: tuple[OperatorErrors, ...]
    first: Difference | None
    reference: str = MicroReference.name
    caveat: str = ""

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return self.first is None

    def table(self) -> Table:
        """Return the compared layers as a table."""
        return layer_errors(f"{self.network} against {self.reference}", self.layers)

    def __str__(self) -> str:
        elements = sum(layer.elements for layer in self.layers)
        compared = sum(layer.elements > 0 for layer in self.layers)
        scope = (
            f"{self.network}: {elements:,} elements of {compared} of {len(self.layers)} operators, "
            f"{count_text(self.samples, 'sample')}"
        )
        if self.first is None:
            return f"{scope}: equal"
        total = sum(layer.different for layer in self.layers)
        lines = (f"{scope}: {total:,} differ", f"first: {self.first}", self.caveat)
        return "\n".join(printable(line) for line in lines if line)


def compare(
    path: str | Path | bytes,
    inputs: Mapping[str, Array] | None = None,
    run: Tensors | None = None,
    *,
    seed: int = 0,
    samples: int | None = None,
) -> Comparison:
    """Run a network here and in its reference runtime, and compare every tensor.

    The reference is TensorFlow Lite Micro, or LiteRT's reference kernels if that refuses the
    network. ONNX networks are compared with ONNX Runtime, on the tensors that have names in the
    file.

    Parameters
    ----------
    path:
        A model file, or its bytes.
    inputs:
        An array for each input, by name; a leading axis longer than the model's batch holds several
        samples. None draws random inputs.
    run:
        Function that computes Matloom's tensors; None for the graph interpreter. Variables keep
        their values from sample to sample, as in the reference.
    seed, samples:
        Seed and number of random samples; None draws one, or four for a network with state.

    Raises
    ------
    ModuleNotFoundError
        tflite-micro is not installed.
    ValueError
        No interpreter supports the model, it cannot be loaded, or the inputs do not match it.
    """
    graph = frontend.load(path)
    reference = open_reference(*frontend.load_complete(path), graph)
    tensors = _interpreter(graph) if run is None else run
    layers = [
        OperatorErrors(operator=operator_name(node), tensor=graph.tensors[node.outputs[0]].name)
        for node in graph.nodes
    ]
    first: Difference | None = None
    known, done = "", 0
    for sample, arrays in enumerate(_samples(graph, inputs, seed, samples)):
        done += 1
        expected, ours = reference.run(arrays), tensors(arrays)
        for at, node in enumerate(graph.nodes):
            for number in node.outputs:
                if number not in ours or number not in expected:
                    continue
                tensor, pair = graph.tensors[number], (expected[number], ours[number])
                wrong = _differing_mask(*pair)
                numbers = (real_numbers(tensor, array) for array in pair)
                layers[at] = layers[at].with_more(wrong, *numbers)
                if first is None and wrong.any():
                    found = _difference(node, tensor.name, sample, wrong, *pair)
                    first, known = replace(found, reference=reference.name), _remark(graph, node)
    return Comparison(
        network=graph.name,
        samples=done,
        layers=tuple(layers),
        first=first,
        reference=reference.name,
        caveat=known or reference.caveat,
    )


def _remark(graph: Graph, node: Node) -> str:
    """Return the compiler's remark on an operator; empty if there is none."""
    remark = graph.remarks.get(node.index, "")
    return f"{node.op} {remark}; --exact leaves such layers to ONNX Runtime" if remark else ""


def _interpreter(graph: Graph) -> Tensors:
    """Return a function that runs the graph interpreter, and keeps variables between calls."""
    state = initial_state(graph)

    def run(inputs: Mapping[int, Array]) -> Mapping[int, Array]:
        """Return all tensors of the graph for one sample, and update the variables."""
        results = interpret(graph, {**state, **inputs}, keep=True)
        state.update(next_state(graph, results))
        return results

    return run


def _difference(
    node: Node, name: str, sample: int, wrong: Array, expected: Array, actual: Array
) -> Difference:
    """Return the first difference in a node's output; `wrong` is the mask of differing elements."""
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    return Difference(
        operator=f"operator {node.index} ({operator_name(node)})",
        tensor=name,
        sample=sample,
        index=index,
        expected=expected[index].item(),
        given=actual[index].item(),
    )


def _differing_mask(expected: Array, actual: Array) -> Array:
    """Return a mask of differing elements; NaN equals NaN.

    Raises
    ------
    ValueError
        Shapes or dtypes differ.
    """
    if (expected.shape, expected.dtype) != (actual.shape, actual.dtype):
        raise ValueError(
            f"a tensor must be {expected.dtype} {expected.shape}, not {actual.dtype} {actual.shape}"
        )
    unequal: Array = (expected != actual) & ~((expected != expected) & (actual != actual))
    return unequal


def _samples(
    graph: Graph, inputs: Mapping[str, Array] | None, seed: int, samples: int | None
) -> Iterator[dict[int, Array]]:
    """Yield the inputs of each sample by tensor number."""
    if inputs is None:
        usual = _RANDOM_SAMPLES if graph.variables else 1
        for sample in range(usual if samples is None else samples):
            yield random_inputs(graph, seed + sample)
        return
    names = {graph.tensors[number].name: number for number in graph.inputs}
    if set(inputs) != set(names):
        raise UserError(
            f"inputs must be {sorted(names)}, not {sorted(inputs)}",
            hint="name the arrays as the network names its inputs: matloom explain NET",
        )
    stacked = {}
    for name, array in inputs.items():
        shape = graph.tensors[names[name]].shape
        if array.ndim == len(shape) and len(array) % shape[0] == 0:
            array = array.reshape(-1, shape[0], *array.shape[1:])
        for sample in array:
            check_input(graph, names[name], sample)
        stacked[names[name]] = array
    lengths = {len(array) for array in stacked.values()}
    if len(lengths) != 1:
        raise UserError(
            f"inputs must have equally many samples, not {sorted(lengths)}",
            hint="give as many samples of each input",
        )
    for sample in range(lengths.pop()):
        yield {number: array[sample] for number, array in stacked.items()}


def random_inputs(graph: Graph, seed: int) -> dict[int, Array]:
    """Return random inputs of a graph by tensor number, as drawn by `random_array`.

    Indices of GATHER are valid.
    """
    generator = np.random.default_rng(seed)
    opaque = any(node.op is Op.REFERENCE for node in graph.nodes)
    given, indices = (
        {number: graph.tensors[number] for number in graph.inputs},
        graph_index_lengths(graph),
    )
    return {
        number: random_array(
            generator, tensor.shape, tensor.dtype, counts=opaque, length=indices.get(number)
        )
        for number, tensor in given.items()
    }
