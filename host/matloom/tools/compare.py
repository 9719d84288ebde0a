"""Compares a network with TensorFlow Lite Micro, tensor by tensor."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from matloom.frontend.tflite import load_tflite
from matloom.ir.graph import Array, Graph, Node
from matloom.kernels.interpreter import carried, check_input, initial_state, interpret

__all__ = ["Comparison", "Difference", "Layer", "Reference", "compare", "random_inputs"]

#: Tensors by number, from the graph's inputs by number; those that never exist may be left out.
Tensors = Callable[[Mapping[int, Array]], Mapping[int, Array]]

#: Random samples of a network that remembers.
_SAMPLES = 4


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first element of a tensor that differs."""

    operator: str
    tensor: str
    sample: int
    index: tuple[int, ...]
    expected: int | float
    given: int | float

    def __str__(self) -> str:
        return (
            f"sample {self.sample}, {self.operator}, tensor {self.tensor}, index {self.index}: "
            f"TensorFlow Lite Micro has {self.expected}, Matloom {self.given}"
        )


@dataclass(frozen=True, kw_only=True)
class Layer:
    """What was compared of one operator's output, over all samples."""

    operator: str
    elements: int
    different: int

    def with_more(self, wrong: Array) -> "Layer":
        """Return the count with another sample's."""
        return replace(
            self,
            elements=self.elements + wrong.size,
            different=self.different + int(wrong.sum()),
        )


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The outcome; `first` is None where all that was compared is equal."""

    network: str
    samples: int
    layers: tuple[Layer, ...]
    first: Difference | None

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return self.first is None

    def __str__(self) -> str:
        elements = sum(layer.elements for layer in self.layers)
        compared = sum(layer.elements > 0 for layer in self.layers)
        scope = (
            f"{self.network}: {elements} elements of {compared} of {len(self.layers)} operators, "
            f"{self.samples} samples"
        )
        if self.first is None:
            return f"{scope}: equal"
        return f"{scope}: {sum(layer.different for layer in self.layers)} differ\n{self.first}"


def compare(
    path: str | Path | bytes,
    inputs: Mapping[str, Array] | None = None,
    run: Tensors | None = None,
    *,
    seed: int = 0,
) -> Comparison:
    """Run a network here and in TensorFlow Lite Micro, and compare every tensor.

    Parameters
    ----------
    path:
        A TensorFlow Lite file, or its bytes.
    inputs:
        An array for each input, by name; a leading axis longer than the model's batch runs sample
        by sample. Random if None.
    run:
        Returns our tensors; the interpreter of graphs if None. Variables go on from sample to
        sample, as there.
    seed:
        Of the random inputs.

    Raises
    ------
    ModuleNotFoundError
        tflite-micro is not installed.
    ValueError
        The model cannot be loaded, or the inputs are not the model's.
    """
    graph = load_tflite(path)
    reference = Reference(path if isinstance(path, bytes) else Path(path).read_bytes(), graph)

    state = initial_state(graph)

    def interpreted(given: Mapping[int, Array]) -> Mapping[int, Array]:
        results = interpret(graph, {**state, **given}, keep=True)
        state.update(carried(graph, results))
        return results

    tensors = interpreted if run is None else run
    layers = [Layer(operator=str(node), elements=0, different=0) for node in graph.nodes]
    first: Difference | None = None
    samples = 0
    for sample, given in enumerate(_samples(graph, inputs, seed)):
        samples += 1
        expected, ours = reference.run(given), tensors(given)
        for at, node in enumerate(graph.nodes):
            for number in node.outputs:
                if number not in ours:
                    continue
                wrong = _unequal(expected[number], ours[number])
                layers[at] = layers[at].with_more(wrong)
                if first is None and wrong.any():
                    pair = expected[number], ours[number]
                    first = _difference(node, graph.tensors[number].name, sample, wrong, *pair)
    return Comparison(network=graph.name, samples=samples, layers=tuple(layers), first=first)


def _difference(
    node: Node, name: str, sample: int, wrong: Array, expected: Array, given: Array
) -> Difference:
    """Return the first element that is wrong in a node's output."""
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    return Difference(
        operator=str(node),
        tensor=name,
        sample=sample,
        index=index,
        expected=expected[index].item(),
        given=given[index].item(),
    )


def _unequal(expected: Array, given: Array) -> Array:
    """Return where two arrays differ; not-a-number equals itself."""
    if (expected.shape, expected.dtype) != (given.shape, given.dtype):
        raise ValueError(
            f"a tensor must be {expected.dtype} {expected.shape}, not {given.dtype} {given.shape}"
        )
    unequal: Array = (expected != given) & ~((expected != expected) & (given != given))
    return unequal


def _samples(
    graph: Graph, inputs: Mapping[str, Array] | None, seed: int
) -> Iterator[dict[int, Array]]:
    """Yield the inputs of each sample by tensor number."""
    if inputs is None:
        for sample in range(_SAMPLES if graph.variables else 1):
            yield random_inputs(graph, seed + sample)
        return
    names = {graph.tensors[number].name: number for number in graph.inputs}
    if set(inputs) != set(names):
        raise ValueError(f"inputs must be {sorted(names)}, not {sorted(inputs)}")
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
        raise ValueError(f"inputs must have equally many samples, not {sorted(lengths)}")
    for sample in range(lengths.pop()):
        yield {number: array[sample] for number, array in stacked.items()}


def random_inputs(graph: Graph, seed: int) -> dict[int, Array]:
    """Return random inputs of a graph by tensor number: uniform integers, normal floats."""
    generator = np.random.default_rng(seed)
    inputs = {}
    for number in graph.inputs:
        tensor = graph.tensors[number]
        if np.issubdtype(tensor.dtype, np.integer):
            limits = np.iinfo(tensor.dtype)
            inputs[number] = generator.integers(
                limits.min, limits.max, tensor.shape, tensor.dtype, endpoint=True
            )
        else:
            inputs[number] = generator.standard_normal(tensor.shape).astype(tensor.dtype)
    return inputs


class Reference:
    """TensorFlow Lite Micro with every intermediate tensor kept."""

    def __init__(self, content: bytes, graph: Graph) -> None:
        runtime = _runtime()
        # Nothing shares memory, and kernels keep tables of their own.
        room = sum(tensor.size_bytes + 1024 for tensor in graph.tensors.values())
        try:
            self.interpreter = runtime.Interpreter.from_bytes(
                content,
                arena_size=2 * room + 2**18,
                intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors,
            )
        except RuntimeError as error:
            raise ValueError(f"TensorFlow Lite Micro must take {graph.name}: {error}") from None
        self.graph = graph

    def run(self, inputs: Mapping[int, Array]) -> dict[int, Array]:
        """Return the output of every operator for one sample."""
        for at, number in enumerate(self.graph.inputs):
            self.interpreter.set_input(inputs[number], at)
        self.interpreter.invoke()
        numbers = [number for node in self.graph.nodes for number in node.outputs]
        return {number: self._tensor(number) for number in numbers}

    def _tensor(self, number: int) -> Array:
        data = self.interpreter.GetTensor(number, 0)["tensor_data"]
        return np.array(data).reshape(self.graph.tensors[number].shape)


def _runtime() -> Any:
    try:
        from tflite_micro.python.tflite_micro import runtime
    except ImportError as error:
        raise ModuleNotFoundError(
            f'comparing needs tflite-micro; install it with: pip install "matloom[reference]" '
            f"({error})"
        ) from None
    return runtime
