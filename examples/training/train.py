"""Trains a network with the engine's own integers: weights of four bits, in PyTorch.

    python -m pip install ".[train]"     # in the clone
    python examples/training/train.py --output shapes.tflite

A small network learns to tell drawn shapes apart, first with floats. `matloom.quantise` then gives
its weights four bits, which costs accuracy. Training goes on with the quantised network: each
layer's results are the engine's, bit for bit, and gradients pass as if nothing had been rounded
(straight through; Bengio et al., 2013).
"""

from pathlib import Path

import click
import numpy as np
import torch
from integer_network import IntegerNetwork
from torch import Tensor, nn
from torch.nn import functional

import matloom
from matloom import frontend
from matloom.cli.say import say
from matloom.ir.attributes import Activation, Conv2D, Transpose
from matloom.ir.graph import Node, Op

SIZE, BATCH = 12, 50
PRECISION = "i8xi4"


def shapes(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy images (count, 1, SIZE, SIZE) of squares, rings, crosses and diagonals."""
    draw = np.random.default_rng(seed)
    labels = np.arange(count) % 4
    centre = draw.uniform(4.5, 6.5, (2, count, 1, 1))
    radius = draw.uniform(2.2, 4.2, (count, 1, 1))
    down, right = (
        each[np.newaxis] - middle
        for each, middle in zip(np.indices((SIZE, SIZE)), centre, strict=True)
    )
    edges = [
        np.maximum(abs(down), abs(right)) - radius,
        np.hypot(down, right) - radius,
        np.minimum(abs(down), abs(right)) + np.maximum(np.hypot(down, right) - radius, 0),
        abs(abs(down) - abs(right)) / 2**0.5 + np.maximum(np.hypot(down, right) - radius, 0),
    ]
    distance = np.choose(labels[:, np.newaxis, np.newaxis], np.abs(edges))
    images = np.exp(-(distance**2)) * draw.uniform(0.5, 1, (count, 1, 1))
    images += draw.normal(0, 0.25, images.shape)
    return images[:, np.newaxis].astype(np.float32), labels


def network() -> nn.Module:
    """Return a float network: four logits for images (batch, 1, SIZE, SIZE)."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, 2),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, 1, 1, groups=8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 1),
        nn.ReLU(),
        nn.Conv2d(16, 8, 3, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32, 4),
    )


class Exactly(torch.autograd.Function):
    """Function that replaces floats by the quantised network's numbers, and passes gradients on."""

    @staticmethod
    def forward(context: object, floats: Tensor, exact: Tensor) -> Tensor:
        """Return `exact`, which has the shape of `floats`."""
        return exact.clone()

    @staticmethod
    def backward(context: object, gradient: Tensor) -> tuple[Tensor, None]:
        """Return the gradient of the floats, and None for `exact`."""
        return gradient, None


class Straight:
    """Quantised network that PyTorch trains with straight-through gradients."""

    def __init__(self, network: IntegerNetwork) -> None:
        self.network = network
        self.weights = {
            number: torch.tensor(array, dtype=torch.float32, requires_grad=True)
            for number, array in network.weights.items()
        }

    def copy_weights(self) -> None:
        """Copy PyTorch's current weights to the quantised network."""
        self.network.weights = {
            number: weight.detach().double().numpy() for number, weight in self.weights.items()
        }

    def logits(self, images: np.ndarray) -> Tensor:
        """Return the quantised network's logits for images (batch, *shape of the input)."""
        self.copy_weights()
        graph, values = self.network.graph(), self.network.values(images)
        rounded = self.network.rounded_weights()
        constants = {
            number: Exactly.apply(weight, torch.from_numpy(rounded[number]).float())
            for number, weight in self.weights.items()
        }
        known = {number: torch.from_numpy(values[number]) for number in graph.inputs}
        for node in graph.nodes:
            shape = values[node.output].shape
            floats = in_floats(node, [(known | constants)[at] for at in node.inputs], shape)
            tensor = graph.tensors[node.output]
            low, high = ((at - tensor.zero_point) * tensor.scale for at in (-128, 127))
            if getattr(node.attributes, "activation", None) is Activation.RELU:
                low = max(low, 0.0)
            # No gradient where the integers saturate.
            floats = floats.clamp(low, high)
            known[node.output] = Exactly.apply(floats, torch.from_numpy(values[node.output]))
        return known[graph.outputs[0]].reshape(len(images), -1)


def in_floats(node: Node, inputs: list[Tensor], shape: tuple[int, ...]) -> Tensor:
    """Return the result of an operator in floats, before its activation, (batch, *shape)."""
    if node.op is Op.FULLY_CONNECTED:
        return functional.linear(*inputs).reshape(shape)
    if node.op in (Op.CONV_2D, Op.DEPTHWISE_CONV_2D):
        return convolution(node, *inputs).reshape(shape)
    if node.op is Op.TRANSPOSE:
        assert isinstance(node.attributes, Transpose)
        axes = [0, *(axis + 1 for axis in node.attributes.permutation)]
        return inputs[0].permute(axes)
    if node.op is Op.RESHAPE:
        return inputs[0].reshape(shape)
    raise click.ClickException(f"{node} has no counterpart in PyTorch here: add it to in_floats")


def convolution(node: Node, images: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """Return the sums of a convolution of images (batch, 1, height, width, channels)."""
    attributes = node.attributes
    assert isinstance(attributes, Conv2D)
    groups = 1 if node.op is Op.CONV_2D else weights.shape[3]
    kernel = weights.permute(0, 3, 1, 2) if groups == 1 else weights.permute(3, 0, 1, 2)
    edges = attributes.padding
    images = images.flatten(0, 1).permute(0, 3, 1, 2)
    images = functional.pad(images, (edges.left, edges.right, edges.top, edges.bottom))
    sums = functional.conv2d(
        images, kernel, bias, attributes.stride, dilation=attributes.dilation, groups=groups
    )
    return sums.permute(0, 2, 3, 1)


def fit(logits, weights: list[Tensor], data: tuple, *, epochs: int, rate: float) -> None:
    """Train weights on `data`, images and labels; `logits` is a function of images."""
    images, labels = data
    optimiser = torch.optim.Adam(weights, rate)
    steps = epochs * (len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(epochs):
        for chosen in torch.randperm(len(images)).split(BATCH):
            loss = functional.cross_entropy(
                logits(images[chosen.numpy()]), torch.from_numpy(labels)[chosen]
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()


def accuracy(network: IntegerNetwork, data: tuple) -> float:
    """Return the share of images that a quantised network classifies right."""
    images, labels = data
    (output,) = network.graph().outputs
    return float(
        (network.values(images)[output].reshape(len(images), -1).argmax(1) == labels).mean()
    )


@click.command()
@click.option("--output", type=click.Path(path_type=Path), default="shapes.tflite")
@click.option("--count", type=int, default=2000, show_default=True, help="Images to train on.")
@click.option("--epochs", type=int, default=15, show_default=True, help="With floats.")
@click.option("--more", type=int, default=6, show_default=True, help="Epochs with integers.")
@click.option("--device", default="model", show_default=True, help="What runs the result.")
def main(output: Path, count: int, epochs: int, more: int, device: str) -> None:
    """Train with floats, quantise, train with integers, and run the result."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    known, held_out = shapes(count, seed=0), shapes(1000, seed=1)
    floats = network()
    fit(
        lambda images: floats(torch.from_numpy(images)),
        list(floats.parameters()),
        known,
        epochs=epochs,
        rate=0.01,
    )
    with torch.no_grad():
        right = floats(torch.from_numpy(held_out[0])).argmax(1).numpy() == held_out[1]
    say(f"float: {right.mean():.1%} of {len(right)} held-out shapes")
    program = torch.export.export(floats.eval(), (torch.zeros(1, 1, SIZE, SIZE),))
    samples = known[0][:, np.newaxis]
    made = matloom.quantise(program, samples[:200], samples=100, precision=PRECISION)
    integers = IntegerNetwork(made.graph, PRECISION)
    held_out = held_out[0][:, np.newaxis], held_out[1]
    say(f"4-bit weights, quantised: {accuracy(integers, held_out):.1%}")
    straight = Straight(integers)
    fit(
        straight.logits,
        list(straight.weights.values()),
        (samples, known[1]),
        epochs=more,
        rate=0.002,
    )
    straight.copy_weights()
    say(f"4-bit weights, trained on: {accuracy(integers, held_out):.1%}")
    output.write_bytes(frontend.write(integers.graph())[1])
    session = matloom.load(output, device, config="nano+i8xi4")
    expected = integers.values(held_out[0][:5])[integers.graph().outputs[0]]
    for image, values in zip(held_out[0][:5], expected, strict=True):
        results = session.dequantise(session.run(session.quantise(image)))
        assert np.array_equal(results, values)
    say(f"5 results on {device} equal those in training; wrote {output}")


if __name__ == "__main__":
    main()
