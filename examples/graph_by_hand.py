"""Builds a network of one CONV_2D in Python, compiles it, lists its instructions and runs it.

python examples/graph_by_hand.py --config small
"""

import click
import numpy as np

import matloom
from matloom.device.open import DEVICES
from matloom.ir.attributes import Activation, Conv2D, Padding
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Graph, Op, Quantisation
from matloom.kernels.interpreter import interpret
from matloom.program.disassemble import disassemble


def network() -> Graph:
    """Return an 8x8 image of 16 channels, convolved with 16 filters of 3x3, then RELU."""
    generator = np.random.default_rng(0)
    filters = generator.integers(-127, 128, (16, 3, 3, 16), np.int8)
    bias = generator.integers(-1000, 1001, 16, np.int32)
    graph = GraphBuilder("one CONV_2D")
    image = graph.input(
        "image", (1, 8, 8, 16), "int8", Quantisation(scale=(0.05,), zero_point=(-3,))
    )
    inputs = [
        image,
        graph.constant(
            filters, Quantisation(scale=(0.01,) * 16, zero_point=(0,) * 16, axis=0), "filters"
        ),
        graph.constant(bias, name="bias"),
    ]
    attributes = Conv2D(
        padding=Padding(top=1, bottom=1, left=1, right=1), activation=Activation.RELU
    )
    scale = Quantisation(scale=(0.1,), zero_point=(5,))
    features = graph.add(Op.CONV_2D, inputs, attributes, quantisation=scale, name="features")
    return graph.graph(features)


@click.command()
@click.option("--device", type=click.Choice(DEVICES), default="model", show_default=True)
@click.option("--config", default="reference", show_default=True, help="A preset or a file.")
def main(device: str, config: str) -> None:
    """Compile the network, list its instructions, and compare a run with the definition."""
    graph = network()
    program = matloom.compile(graph, config)
    print(disassemble(program))
    image = np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 16), np.int8)
    with matloom.load(program, device=device) as session:
        features = session.run(image)
    assert np.array_equal(features, interpret(graph, {0: image})[3])
    print("equal to the definition of CONV_2D")


if __name__ == "__main__":
    main()
