"""Changes that make a file odd, like those of real tools: one change for each function."""

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from single_operators.model_file import FileNetwork, FileTensor

_Change = Callable[[FileNetwork, random.Random], FileNetwork]


def _map_tensors(
    network: FileNetwork, change: Callable[[int, FileTensor], FileTensor]
) -> FileNetwork:
    """Return the network with `change(index, tensor)` instead of each tensor."""
    changed = (change(at, tensor) for at, tensor in enumerate(network.tensors))
    return replace(network, tensors=tuple(changed))


def _change_tensor(
    network: FileNetwork, number: int, change: Callable[[FileTensor], FileTensor]
) -> FileNetwork:
    """Return the network with `change(tensor)` instead of the tensor of index `number`."""
    return _map_tensors(network, lambda at, tensor: change(tensor) if at == number else tensor)


def _without_options(network: FileNetwork, rng: random.Random) -> FileNetwork:
    """Return the network without the operator's options."""
    (operator,) = network.operators
    return replace(network, operators=(replace(operator, options=None),))


def _one_zero_point(network: FileNetwork, rng: random.Random) -> FileNetwork:
    """Return the network with one zero point for many scales, or none for them."""

    def change(index: int, tensor: FileTensor) -> FileTensor:
        """Return a tensor of several scales with one zero point, or none; others unchanged."""
        if len(tensor.scales) > 1:
            return replace(tensor, zeros=tensor.zeros[:1] if rng.random() < 0.8 else ())
        return tensor

    return _map_tensors(network, change)


def _wrong_axis(network: FileNetwork, rng: random.Random) -> FileNetwork:
    """Return the network with the scales of each tensor along a random axis."""

    def change(index: int, tensor: FileTensor) -> FileTensor:
        """Return a quantised tensor with a random axis; others unchanged."""
        return replace(tensor, axis=rng.randint(0, 3)) if tensor.scales else tensor

    return _map_tensors(network, change)


def _other_rank(network: FileNetwork, rng: random.Random) -> FileNetwork:
    """Return the network with another declared shape, of as many bytes, for an output."""
    number = rng.choice(network.outputs)
    shape = network.tensors[number].shape
    total = int(np.prod(shape))
    others = [(total,), (1, *shape), (*shape, 1), tuple(n for n in shape if n != 1), (1, total)]
    return _change_tensor(network, number, lambda tensor: replace(tensor, shape=rng.choice(others)))


def _random_names(network: FileNetwork, rng: random.Random) -> FileNetwork:
    """Return the network with random tensor names: repeated, empty and missing ones."""
    pool = ("", "a", "a", "t1", "t0", "a:1", "t0:1", "tensor_1", "model file", "é", None)
    few = rng.sample(pool, 3)
    return _map_tensors(network, lambda at, tensor: replace(tensor, name=rng.choice(few)))


def _constants_outside(network: FileNetwork, rng: random.Random) -> FileNetwork:
    """Return the network with its constants stored after the flatbuffer."""
    return replace(network, outside=True)


def _zero_size(network: FileNetwork, rng: random.Random) -> FileNetwork:
    """Return the network with an axis of an input, and of like outputs, of length 0."""
    number = rng.choice(network.inputs) if network.inputs else 0
    shape = network.tensors[number].shape
    if not shape:
        return network
    axis = rng.randrange(len(shape))

    def change(index: int, tensor: FileTensor) -> FileTensor:
        """Return a tensor with this axis of length 0, if it is chosen or a like output."""
        same = len(tensor.shape) > axis and tensor.shape[axis] == shape[axis]
        if (index in network.outputs and same) or index == number:
            return replace(tensor, shape=(*tensor.shape[:axis], 0, *tensor.shape[axis + 1 :]))
        return tensor

    return _map_tensors(network, change)


def _repeated_output(network: FileNetwork, rng: random.Random) -> FileNetwork:
    """Return the network with an output listed twice, or an input also listed as an output."""
    if rng.random() < 0.5 or not network.inputs:
        return replace(network, outputs=(*network.outputs, network.outputs[0]))
    return replace(network, outputs=(*network.outputs, network.inputs[0]))


def _in_place(network: FileNetwork, rng: random.Random) -> FileNetwork:
    """Return the network with an operator that writes its own input."""
    (operator,) = network.operators
    for number in network.inputs:
        if network.tensors[number].shape == network.tensors[operator.outputs[0]].shape:
            outputs = (number, *operator.outputs[1:])
            return replace(
                network, operators=(replace(operator, outputs=outputs),), outputs=outputs
            )
    return network


def _without_scales(network: FileNetwork, rng: random.Random) -> FileNetwork:
    """Return a copy of the network in which all tensors, or one of them, lack quantisation."""
    everywhere = rng.random() < 0.6
    number = rng.randrange(len(network.tensors))

    def change(index: int, tensor: FileTensor) -> FileTensor:
        """Return a tensor without quantisation, if it is to lose it."""
        return replace(tensor, scales=(), zeros=()) if everywhere or index == number else tensor

    return _map_tensors(network, change)


def _without_zeros(network: FileNetwork, rng: random.Random) -> FileNetwork:
    """Return the network without zero points."""
    return _map_tensors(network, lambda at, tensor: replace(tensor, zeros=()))


def _absent_bias(network: FileNetwork, rng: random.Random) -> FileNetwork:
    """Return the network with its bias, the third input, marked as absent by -1."""
    (operator,) = network.operators
    if len(operator.inputs) < 3:
        return network
    inputs = (*operator.inputs[:-1], -1)
    return replace(network, operators=(replace(operator, inputs=inputs),))


def _scale_of_zero(network: FileNetwork, rng: random.Random) -> FileNetwork:
    """Return the network with constants that are zero, with a scale of 0, as converters do."""

    def change(index: int, tensor: FileTensor) -> FileTensor:
        """Return a quantised constant as zeros with a scale of 0; others unchanged."""
        if tensor.data is None or not tensor.scales or tensor.dtype == "int4":
            return tensor
        scales = (0.0,) * len(tensor.scales)
        return replace(tensor, data=np.zeros_like(tensor.data), scales=scales)

    return _map_tensors(network, change)


def _computed_parameters(network: FileNetwork, rng: random.Random) -> FileNetwork:
    """Return the network with a constant as an input; axes and shapes keep their values."""
    constants = [
        at
        for at, tensor in enumerate(network.tensors)
        # NumPy has no arrays of int4 to give.
        if tensor.data is not None and tensor.dtype != "int4"
    ]
    if not constants:
        return network
    number = rng.choice(constants)

    def change(tensor: FileTensor) -> FileTensor:
        """Return the tensor without data; integers stay the value that the test passes."""
        kept = tensor.data if tensor.dtype in ("int32", "int64") else None
        return replace(tensor, data=None, given=kept)

    changed = _change_tensor(network, number, change)
    return replace(changed, inputs=(*network.inputs, number))


ODDITIES: dict[str, _Change] = {
    "no options": _without_options,
    "one zero point": _one_zero_point,
    "wrong axis": _wrong_axis,
    "other rank": _other_rank,
    "names": _random_names,
    "outside": _constants_outside,
    "zero size": _zero_size,
    "twice": _repeated_output,
    "in place": _in_place,
    "no scales": _without_scales,
    "no zero points": _without_zeros,
    "absent input": _absent_bias,
    "scale of zero": _scale_of_zero,
    "computed constant": _computed_parameters,
}


def make_odd(network: FileNetwork, rng: random.Random) -> tuple[tuple[str, ...], FileNetwork]:
    """Make up to two random changes to a file; return their names and the changed file."""
    count = rng.choice((0, 0, 1, 1, 1, 2))
    chosen = rng.sample(list(ODDITIES), count)
    for name in chosen:
        network = ODDITIES[name](network, rng)
    return tuple(chosen), network
