"""Trains a small GPT in NumPy on the Zen of Python, and lets the chip write it, letter by letter.

python examples/decoder.py --device rtl --config reference+softmax=1

Keys and values of earlier letters are variables of the network: they stay in the device's memory.
"""

import codecs
import contextlib
import time

import click
import numpy as np

import matloom
from matloom.device.open import DEVICES
from matloom.ir.attributes import (
    Activation,
    Arithmetic,
    Axis,
    BatchMatmul,
    FullyConnected,
    Slice,
    Softmax,
)
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Graph, Op

#: Numbers of a letter; layers; heads and the numbers of each; letters that a head sees.
WIDTH, BLOCKS, HEADS, DEPTH, SEEN = 64, 2, 4, 16, 64
#: Texts of a training step, the letters of each, and the learning rate.
BATCH, LENGTH, RATE = 8, 96, 4e-3

with contextlib.redirect_stdout(None):
    import this

TEXT = codecs.decode(this.s, "rot13")
LETTERS = "".join(sorted({*TEXT}))
NUMBERS = np.array([LETTERS.index(letter) for letter in TEXT])

Parameters = dict[str, np.ndarray]


def initial(generator: np.random.Generator) -> Parameters:
    """Return random parameters: matrices (inputs, outputs), and the biases of attention scores.

    ``near<block>`` (HEADS, SEEN) is added to scores by the distance between two letters.
    """
    shapes = {"embed": (len(LETTERS), WIDTH), "letters": (WIDTH, len(LETTERS))}
    for block in range(BLOCKS):
        shapes |= {f"{name}{block}": (WIDTH, WIDTH) for name in "qkvo"}
        shapes |= {f"up{block}": (WIDTH, 4 * WIDTH), f"down{block}": (4 * WIDTH, WIDTH)}
    found = {
        name: generator.standard_normal(shape) / np.sqrt(shape[0]) for name, shape in shapes.items()
    }
    found["embed"] *= np.sqrt(len(LETTERS)) / 2
    for block in range(BLOCKS):
        found[f"q{block}"] /= np.sqrt(DEPTH)
        found[f"near{block}"] = generator.standard_normal((HEADS, SEEN)) / 2
    return found


def heads(rows: np.ndarray) -> np.ndarray:
    """Return rows (n, letters, WIDTH) split into heads: (n, HEADS, letters, DEPTH)."""
    return rows.reshape(*rows.shape[:2], HEADS, DEPTH).swapaxes(1, 2)


def join_heads(parts: np.ndarray) -> np.ndarray:
    """Return heads (n, HEADS, letters, DEPTH) joined to rows (n, letters, WIDTH)."""
    return parts.swapaxes(1, 2).reshape(len(parts), -1, WIDTH)


def with_empty_cache(parts: np.ndarray) -> np.ndarray:
    """Return keys or values after the zeros that the cache starts with, along the letters."""
    return np.pad(parts, ((0, 0), (0, 0), (SEEN - 1, 0), (0, 0)))


def band(length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return indices that select, for each letter, the scores of itself and earlier ones.

    They are row indices (length, 1) and column indices (length, SEEN) of an attention matrix, whose
    columns begin with the empty cache.
    """
    rows = np.arange(length)[:, None]
    return rows, rows + np.arange(SEEN)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Return the softmax over the last axis."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def forward(parameters: Parameters, numbers: np.ndarray) -> tuple[np.ndarray, list]:
    """Return logits of each next letter, and the intermediate results that `gradients` needs.

    `numbers` (n, letters) are the indices of letters in `LETTERS`.
    """
    x, kept, places = parameters["embed"][numbers], [], band(numbers.shape[1])
    for block in range(BLOCKS):
        q, k, v = (heads(x @ parameters[f"{name}{block}"]) for name in "qkv")
        k, v = with_empty_cache(k), with_empty_cache(v)
        scores = (q @ k.swapaxes(2, 3))[..., *places] + parameters[f"near{block}"][:, None]
        shares = np.zeros((*q.shape[:3], k.shape[2]))
        shares[..., *places] = softmax(scores)
        mixed = join_heads(shares @ v)
        middle = x + mixed @ parameters[f"o{block}"]
        hidden = np.maximum(middle @ parameters[f"up{block}"], 0)
        kept.append((x, q, k, v, shares, mixed, middle, hidden))
        x = middle + hidden @ parameters[f"down{block}"]
    return x @ parameters["letters"], [*kept, x]


def gradients(parameters: Parameters, numbers: np.ndarray) -> tuple[float, Parameters]:
    """Return the mean cross-entropy and the gradients of all parameters, by name.

    `numbers` (n, letters + 1) are texts; each letter is predicted from those before it.
    """
    numbers, wanted = numbers[:, :-1], numbers[:, 1:]
    logits, (*kept, last) = forward(parameters, numbers)
    error = softmax(logits)
    right = np.take_along_axis(error, wanted[..., None], 2)
    loss = float(-np.log(right + 1e-9).mean())
    np.put_along_axis(error, wanted[..., None], right - 1, 2)
    error /= wanted.size
    found = {}
    places = band(numbers.shape[1])

    def through(name: str, inputs: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Store a matrix's gradient, given that of its outputs; return that of its inputs."""
        found[name] = inputs.reshape(-1, inputs.shape[-1]).T @ outputs.reshape(
            -1, outputs.shape[-1]
        )
        return outputs @ parameters[name].T

    x_error = through("letters", last, error)
    for block in reversed(range(BLOCKS)):
        x, q, k, v, shares, mixed, middle, hidden = kept[block]
        hidden_error = through(f"down{block}", hidden, x_error) * (hidden > 0)
        middle_error = x_error + through(f"up{block}", middle, hidden_error)
        mixed_error = heads(through(f"o{block}", mixed, middle_error))
        share_error = mixed_error @ v.swapaxes(2, 3)
        inner = (shares * share_error).sum(axis=-1, keepdims=True)
        score_error = shares * (share_error - inner)
        found[f"near{block}"] = score_error[..., *places].sum(axis=(0, 2))
        k_error, v_error = (
            join_heads((part.swapaxes(2, 3) @ other)[:, :, SEEN - 1 :])
            for part, other in ((score_error, q), (shares, mixed_error))
        )
        x_error = (
            middle_error
            + through(f"q{block}", x, join_heads(score_error @ k))
            + through(f"k{block}", x, k_error)
            + through(f"v{block}", x, v_error)
        )
    found["embed"] = np.zeros_like(parameters["embed"])
    np.add.at(found["embed"], numbers, x_error)
    return loss, found


def train(steps: int) -> tuple[float, Parameters]:
    """Return the last loss and the parameters, trained with Adam, whose rate falls to zero."""
    generator, loss = np.random.default_rng(0), 0.0
    parameters = initial(generator)
    mean, square = (
        {name: np.zeros_like(each) for name, each in parameters.items()} for _ in range(2)
    )
    for step in range(steps):
        starts = generator.integers(0, len(NUMBERS) - LENGTH, BATCH)[:, None]
        loss, found = gradients(parameters, NUMBERS[starts + np.arange(LENGTH + 1)])
        rate = RATE * min(1, step / 20) * (1 - step / steps)
        for name, gradient in found.items():
            mean[name] += 0.1 * (gradient - mean[name])
            square[name] += 0.01 * (gradient**2 - square[name])
            unbiased = mean[name] / (1 - 0.9 ** (step + 1))
            size = np.sqrt(square[name] / (1 - 0.99 ** (step + 1))) + 1e-8
            parameters[name] = parameters[name] - rate * unbiased / size
    return loss, parameters


def network(parameters: Parameters) -> Graph:
    """Return the network of one letter as a graph of float32; the cache is in its variables."""
    builder = GraphBuilder("decoder")

    def dense(source: int, name: str, activation: Activation = Activation.NONE) -> int:
        """Add a dense layer with the parameter `name` as weights; return its output."""
        matrix = builder.constant(np.ascontiguousarray(parameters[name].T, np.float32), name=name)
        bias = builder.constant(np.zeros(parameters[name].shape[1], np.float32))
        kept = FullyConnected(activation=activation)
        return builder.add(Op.FULLY_CONNECTED, [source, matrix, bias], kept)

    def add(first: int, second: int) -> int:
        """Add the sum of two tensors; return its output."""
        return builder.add(Op.ADD, [first, second], Arithmetic())

    def reshape(source: int, *shape: int) -> int:
        """Add a reshape of a tensor; return its output."""
        return builder.add(Op.RESHAPE, [source], shape=shape)

    def product(first: int, second: int) -> int:
        """Add the matrix product of two tensors; return its output."""
        return builder.add(Op.BATCH_MATMUL, [first, second], BatchMatmul(adj_x=False, adj_y=False))

    def last_values(name: str, source: int) -> int:
        """Return the last SEEN keys or values, (HEADS, SEEN, DEPTH)."""
        shape = (HEADS, SEEN, DEPTH)
        cache = builder.variable(name, np.zeros(shape, np.float32))
        later = Slice(begin=(0, 1, 0), size=(HEADS, SEEN - 1, DEPTH), step=(1, 1, 1), dropped=())
        old = builder.add(Op.STRIDED_SLICE, [cache], later)
        row = reshape(source, HEADS, 1, DEPTH)
        after = builder.add(Op.CONCATENATION, [old, row], Axis(axis=1))
        builder.assign(cache, after)
        return after

    letter = builder.input("letter", (1, len(LETTERS)), "float32")
    x = dense(letter, "embed")
    for block in range(BLOCKS):
        q, k, v = (dense(x, f"{name}{block}") for name in "qkv")
        keys, values = last_values(f"keys{block}", k), last_values(f"values{block}", v)
        scores = reshape(product(keys, reshape(q, HEADS, DEPTH, 1)), HEADS, 1, SEEN)
        near = builder.constant(np.float32(parameters[f"near{block}"])[:, None])
        shares = builder.add(Op.SOFTMAX, [add(scores, near)], Softmax(beta=1.0))
        x = add(x, dense(reshape(product(shares, values), 1, WIDTH), f"o{block}"))
        x = add(x, dense(dense(x, f"up{block}", Activation.RELU), f"down{block}"))
    return builder.graph(dense(x, "letters"))


@click.command()
@click.option("--device", type=click.Choice(DEVICES), default="model", show_default=True)
@click.option("--config", default="reference+softmax=1", show_default=True)
@click.option("--steps", default=400, show_default=True, help="How long to train.")
@click.option("--prompt", default="Beautiful is better", show_default=True)
@click.option("--count", default=60, show_default=True, help="Letters to write.")
@click.option("--megahertz", default=50.0, show_default=True, help="Clock of a board.")
def main(device: str, config: str, steps: int, prompt: str, count: int, megahertz: float) -> None:
    """Train, quantise, and write letters that follow a prompt."""
    started = time.process_time()
    loss, parameters = train(steps)
    print(f"trained in {time.process_time() - started:.0f} s: {loss:.3f} nats a letter")
    texts = np.eye(len(LETTERS), dtype=np.float32)[NUMBERS[: 4 * SEEN]]
    quantised = matloom.quantise(network(parameters), texts[:, None], calibration="minmax")
    with matloom.load(quantised.graph, device=device, config=config) as session:
        text, cycles = prompt, []
        for place in range(len(prompt) + count - 1):
            letter = np.eye(len(LETTERS), dtype=np.float32)[[LETTERS.index(text[place])]]
            logits = session.run(session.quantise(letter))
            cycles.append(session.report().cycles)
            if place >= len(prompt) - 1:
                text += LETTERS[int(logits.argmax())]
        print(text)
        print(session.report())
        speed = megahertz * 1e6 / cycles[-1]
        print(f"{cycles[-1]:,} cycles a letter: {speed:,.0f} letters/s at {megahertz:g} MHz")
        weights = sum(each.size for name, each in parameters.items() if "near" not in name)
        bound = weights // session.program.config.bus_bytes
        print(f"{weights:,} bytes of weights take the bus {bound:,} cycles, where they do not stay")


if __name__ == "__main__":
    main()
