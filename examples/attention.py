"""Multiplies queries by keys, and weights by values: neither operand is known before the run.

python examples/attention.py --device rtl --config reference --size 64
"""

import click
import numpy as np

import matloom
from matloom import ops
from matloom.arch.config import load_config
from matloom.arch.numerics import multiply_by_quantized_multiplier, quantize_multiplier
from matloom.device.open import DEVICES
from matloom.ir.attributes import BatchMatmul, FullyConnected
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Graph, Op, Quantisation

HALF = Quantisation(scale=(0.5,), zero_point=(0,))


def network(size: int, second: str) -> Graph:
    """Return a graph of two dense layers, followed by a product unless `second` is empty.

    `second` is the kind of the product's second operand: "constant" or "computed".
    """
    builder, generator = GraphBuilder("product"), np.random.default_rng(1)

    def dense(source: int) -> int:
        """Add a dense layer with random weights; return its output."""
        weights = builder.constant(generator.integers(-127, 128, (size, size), np.int8), HALF)
        kept = FullyConnected()
        return builder.add(Op.FULLY_CONNECTED, [source, weights], kept, quantisation=HALF)

    given = builder.input("a", (size, size), "int8", HALF)
    first = dense(given)
    if second != "computed":
        last = dense(first)
        return builder.graph(dense(last) if second == "constant" else last)
    plain = BatchMatmul(adj_x=False, adj_y=False)
    operands = [first, dense(given)]
    return builder.graph(builder.add(Op.BATCH_MATMUL, operands, plain, quantisation=HALF))


def product(
    a: np.ndarray, b: np.ndarray, scale: float, zeros: tuple[int, int], *, transposed: bool
) -> np.ndarray:
    """Return the definition of a product: exact sums, scaled and rounded."""
    right = b.astype(int).swapaxes(-1, -2) if transposed else b.astype(int)
    sums = (a.astype(int) - zeros[0]) @ (right - zeros[1])
    scaled = multiply_by_quantized_multiplier(sums, *quantize_multiplier(scale))
    return np.clip(scaled, -128, 127)


@click.command()
@click.option("--device", type=click.Choice(DEVICES), default="model", show_default=True)
@click.option("--config", default="reference", show_default=True, help="A preset or a file.")
@click.option("--size", default=64, show_default=True, help="Tokens, and numbers of each.")
def main(device: str, config: str, size: int) -> None:
    """Run the products of attention, and compare cycles with those of constant weights."""
    generator = np.random.default_rng(0)
    queries, keys, values = generator.integers(-128, 128, (3, size, size), np.int8)
    chip = {"device": device, "config": config}

    scale, zeros = 1e-3, (3, -5)
    scores = ops.batch_matmul(
        queries, keys, scale=scale, input_zero_points=zeros, adj=(False, True), **chip
    )
    assert np.array_equal(scores, product(queries, keys, scale, zeros, transposed=True))
    print(f"scores: equal to the definition, {scores.shape}")

    # What SOFTMAX gives: bytes from -128, which stands for 0.
    weights, zeros = scores, (-128, 0)
    mixed = ops.batch_matmul(weights, values, scale=1 / 256, input_zero_points=zeros, **chip)
    assert np.array_equal(mixed, product(weights, values, 1 / 256, zeros, transposed=False))
    print(f"values: equal to the definition, {mixed.shape}")

    engine = load_config(config)
    bound = size**3 // (engine.rows * engine.columns)
    cycles = {}
    for second in ("", "constant", "computed"):
        with matloom.load(network(size, second), **chip) as session:
            session.run(queries)
            report = session.report()
        cycles[second] = report.cycles or report.predicted_cycles
    for second in ("constant", "computed"):
        more = cycles[second] - cycles[""]
        print(f"{second} second operand: {more:,} cycles, {bound / more:.2f} of the multipliers")


if __name__ == "__main__":
    main()
