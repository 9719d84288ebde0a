"""Multiplies queries by keys, and weights by values: neither operand is known before the run.

python examples/attention.py --device rtl --config reference --size 64
"""

import click
import numpy as np

import matloom
from matloom import ops
from matloom.arch.numerics import multiply_by_quantized_multiplier, quantize_multiplier
from matloom.device.open import DEVICES
from matloom.ir.attributes import Activation, BatchMatmul, FullyConnected
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Graph, Op, Quantisation

HALF = Quantisation(scale=(0.5,), zero_point=(0,))


def network(size: int, *, constant: bool) -> Graph:
    """Return one product of square matrices, with a constant second operand or a computed one."""
    builder = GraphBuilder("product")
    a = builder.input("a", (size, size), "int8", HALF)
    if constant:
        weights = builder.constant(np.ones((size, size), np.int8), HALF)
        dense = FullyConnected(keep_num_dims=False, activation=Activation.NONE)
        return builder.graph(
            builder.add(Op.FULLY_CONNECTED, [a, weights], dense, quantisation=HALF)
        )
    b = builder.input("b", (size, size), "int8", HALF)
    plain = BatchMatmul(adj_x=False, adj_y=False)
    return builder.graph(builder.add(Op.BATCH_MATMUL, [a, b], plain, quantisation=HALF))


def product(
    a: np.ndarray, b: np.ndarray, scale: float, zeros: tuple[int, int], *, turned: bool
) -> np.ndarray:
    """Return the definition of a product: exact sums, scaled and rounded."""
    right = b.astype(int).swapaxes(-1, -2) if turned else b.astype(int)
    sums = (a.astype(int) - zeros[0]) @ (right - zeros[1])
    scaled = multiply_by_quantized_multiplier(sums, *quantize_multiplier(scale))
    return np.clip(scaled, -128, 127)


@click.command()
@click.option("--device", type=click.Choice(DEVICES), default="model", show_default=True)
@click.option("--config", default="reference", show_default=True, help="A preset or a file.")
@click.option("--size", default=64, show_default=True, help="Tokens, and numbers of each.")
def main(device: str, config: str, size: int) -> None:
    """Run the two products of an attention head, and compare their cycles with constant weights."""
    generator = np.random.default_rng(0)
    queries, keys, values = generator.integers(-128, 128, (3, size, size), np.int8)
    chip = {"device": device, "config": config}

    scale, zeros = 1e-3, (3, -5)
    scores = ops.batch_matmul(
        queries, keys, scale=scale, input_zero_points=zeros, adj=(False, True), **chip
    )
    assert np.array_equal(scores, product(queries, keys, scale, zeros, turned=True))
    print(f"scores: equal to the definition, {scores.shape}")

    # What SOFTMAX gives: bytes from -128, which stands for 0.
    weights, zeros = scores, (-128, 0)
    mixed = ops.batch_matmul(weights, values, scale=1 / 256, input_zero_points=zeros, **chip)
    assert np.array_equal(mixed, product(weights, values, 1 / 256, zeros, turned=False))
    print(f"values: equal to the definition, {mixed.shape}")

    for constant in (True, False):
        inputs = {"a": queries} if constant else {"a": queries, "b": keys}
        with matloom.load(network(size, constant=constant), **chip) as session:
            session.run(inputs)
            report = session.report()
        cycles = report.cycles or report.predicted_cycles
        kind = "constant" if constant else "computed"
        print(f"{kind} second operand: {cycles:,} cycles")


if __name__ == "__main__":
    main()
