"""Trains a small transformer on handwritten digits in NumPy, quantises it, and runs it on the chip.

python examples/transformer.py --device rtl --config reference
"""

import click
import numpy as np

import matloom
from matloom.data.digits import split
from matloom.device.open import DEVICES
from matloom.ir.attributes import (
    Activation,
    Arithmetic,
    BatchMatmul,
    Conv2D,
    FullyConnected,
    Reduce,
    Softmax,
)
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Graph, Op

#: Patches of 2 x 2 pixels of an image of 8 x 8, numbers of each, layers of attention.
TOKENS, WIDTH, BLOCKS = 16, 32, 2
BATCH, RATE = 64, 8e-3

Parameters = dict[str, np.ndarray]


def patches(images: np.ndarray) -> np.ndarray:
    """Return the pixels of each patch, (n, TOKENS, 4), of images (n, 8, 8, 1)."""
    parts = images.reshape(-1, 4, 2, 4, 2).transpose(0, 1, 3, 2, 4)
    return parts.reshape(-1, TOKENS, 4)


def initial(generator: np.random.Generator) -> Parameters:
    """Return random parameters: matrices (inputs, outputs), and position embeddings."""
    shapes = {"embed": (4, WIDTH), "classes": (WIDTH, 10)}
    for block in range(BLOCKS):
        shapes |= {f"{name}{block}": (WIDTH, WIDTH) for name in "qkvo"}
        shapes |= {f"up{block}": (WIDTH, 2 * WIDTH), f"down{block}": (2 * WIDTH, WIDTH)}
    found = {
        name: generator.standard_normal(shape) / np.sqrt(shape[0]) for name, shape in shapes.items()
    }
    return {**found, "places": generator.standard_normal((TOKENS, WIDTH)) / 2}


def forward(parameters: Parameters, images: np.ndarray) -> tuple[np.ndarray, list]:
    """Return logits (n, 10), and each block's intermediate results for `gradients`."""
    x, kept = patches(images) @ parameters["embed"] + parameters["places"], []
    for block in range(BLOCKS):
        q, k, v = (x @ parameters[f"{name}{block}"] for name in "qkv")
        scores = q @ k.swapaxes(1, 2)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares = powers / powers.sum(axis=-1, keepdims=True)
        mixed = shares @ v
        middle = x + mixed @ parameters[f"o{block}"]
        hidden = np.maximum(middle @ parameters[f"up{block}"], 0)
        kept.append((x, q, k, v, shares, mixed, middle, hidden))
        x = middle + hidden @ parameters[f"down{block}"]
    mean = x.mean(axis=1)
    return mean @ parameters["classes"], [*kept, mean]


def gradients(parameters: Parameters, images: np.ndarray, labels: np.ndarray) -> Parameters:
    """Return the gradients of the cross-entropy, by name of the parameter."""
    logits, (*kept, mean) = forward(parameters, images)
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    error = (powers / powers.sum(axis=-1, keepdims=True) - np.eye(10)[labels]) / len(labels)
    found = {"classes": mean.T @ error}

    def through(name: str, inputs: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Store a matrix's gradient, given that of its outputs; return that of its inputs."""
        found[name] = np.einsum("nti,nto->io", inputs, outputs)
        return outputs @ parameters[name].T

    x_error = np.repeat((error @ parameters["classes"].T)[:, None] / TOKENS, TOKENS, axis=1)
    for block in reversed(range(BLOCKS)):
        x, q, k, v, shares, mixed, middle, hidden = kept[block]
        hidden_error = through(f"down{block}", hidden, x_error) * (hidden > 0)
        middle_error = x_error + through(f"up{block}", middle, hidden_error)
        mixed_error = through(f"o{block}", mixed, middle_error)
        share_error = shares * (mixed_error @ v.swapaxes(1, 2))
        score_error = share_error - shares * share_error.sum(axis=-1, keepdims=True)
        x_error = (
            middle_error
            + through(f"q{block}", x, score_error @ k)
            + through(f"k{block}", x, score_error.swapaxes(1, 2) @ q)
            + through(f"v{block}", x, shares.swapaxes(1, 2) @ mixed_error)
        )
    through("embed", patches(images), x_error)
    return {**found, "places": x_error.sum(axis=0)}


def train(images: np.ndarray, labels: np.ndarray, epochs: int) -> Parameters:
    """Return parameters trained with Adam, whose rate falls to zero."""
    generator = np.random.default_rng(0)
    parameters = initial(generator)
    mean, square = (
        {name: np.zeros_like(each) for name, each in parameters.items()} for _ in range(2)
    )
    batches = len(images) // BATCH
    for step in range(epochs * batches):
        if step % batches == 0:
            order = generator.permutation(len(images))
        chosen = order[step % batches * BATCH :][:BATCH]
        rate = RATE * (1 - step / (epochs * batches))
        for name, gradient in gradients(parameters, images[chosen], labels[chosen]).items():
            mean[name] += 0.1 * (gradient - mean[name])
            square[name] += 0.01 * (gradient**2 - square[name])
            unbiased = mean[name] / (1 - 0.9 ** (step + 1))
            size = np.sqrt(square[name] / (1 - 0.99 ** (step + 1))) + 1e-8
            parameters[name] -= rate * unbiased / size
    return parameters


def network(parameters: Parameters) -> Graph:
    """Return the trained transformer for one image, as a graph of float32."""
    builder = GraphBuilder("transformer")
    weights = {name: np.float32(each) for name, each in parameters.items()}

    def dense(source: int, name: str, activation: Activation = Activation.NONE) -> int:
        """Add a dense layer with the parameter `name` as weights; return its output."""
        kept = FullyConnected(keep_num_dims=name != "classes", activation=activation)
        matrix = builder.constant(np.ascontiguousarray(weights[name].T), name=name)
        bias = builder.constant(np.zeros(weights[name].shape[1], np.float32))
        return builder.add(Op.FULLY_CONNECTED, [source, matrix, bias], kept)

    def add(first: int, second: int) -> int:
        """Add the sum of two tensors; return its output."""
        return builder.add(Op.ADD, [first, second], Arithmetic())

    def product(first: int, second: int, *, transposed: bool) -> int:
        """Add a matrix product, with the second factor `transposed` or not; return its output."""
        return builder.add(
            Op.BATCH_MATMUL, [first, second], BatchMatmul(adj_x=False, adj_y=transposed)
        )

    image = builder.input("image", (1, 8, 8, 1), "float32")
    stride = Conv2D(stride=(2, 2))
    filters = builder.constant(weights["embed"].T.reshape(WIDTH, 2, 2, 1).copy())
    tokens = builder.add(
        Op.CONV_2D, [image, filters, builder.constant(np.zeros(WIDTH, np.float32))], stride
    )
    tokens = builder.add(Op.RESHAPE, [tokens], shape=(1, TOKENS, WIDTH))
    x = add(tokens, builder.constant(weights["places"][None]))
    for block in range(BLOCKS):
        q, k, v = (dense(x, f"{name}{block}") for name in "qkv")
        shares = builder.add(Op.SOFTMAX, [product(q, k, transposed=True)], Softmax(beta=1.0))
        x = add(x, dense(product(shares, v, transposed=False), f"o{block}"))
        x = add(x, dense(dense(x, f"up{block}", Activation.RELU), f"down{block}"))
    mean = builder.add(Op.MEAN, [x], Reduce(axes=(1,), keep_dims=False))
    return builder.graph(dense(mean, "classes"))


@click.command()
@click.option("--device", type=click.Choice(DEVICES), default="model", show_default=True)
@click.option("--config", default="reference", show_default=True, help="A preset or a file.")
@click.option("--epochs", default=30, show_default=True, help="How long to train.")
@click.option("--count", default=3, show_default=True, help="Images to run on the device.")
def main(device: str, config: str, epochs: int, count: int) -> None:
    """Train, quantise, measure on held-out images, and run some of these on a device."""
    data = split()
    parameters = train(data.train_images, data.train_labels, epochs)
    logits, _kept = forward(parameters, data.held_out_images)
    print(f"float: {np.mean(logits.argmax(axis=1) == data.held_out_labels):.1%} right")

    quantised = matloom.quantise(network(parameters), data.train_images)
    images, labels = data.held_out_images, data.held_out_labels
    print(matloom.evaluate(quantised.graph, images, labels, config=config))
    with matloom.load(quantised.graph, device=device, config=config) as session:
        for image, label in zip(images[:count], labels, strict=False):
            classes = session.run(session.quantise(image[None]))
            print(f"a {label} is taken for a {classes.argmax()}")
        print(session.report())


if __name__ == "__main__":
    main()
