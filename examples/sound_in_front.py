"""Runs a network on sound: TensorFlow's micro front end is part of the program.

python examples/sound_in_front.py --config small
"""

import click
import numpy as np

import matloom
from matloom.device.open import DEVICES
from matloom.ir.attributes import FullyConnected
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Graph, Op, Quantisation
from matloom.pre import MicroFrontend

STAGE = MicroFrontend(samples=8000, window=480, step=320)


def network() -> Graph:
    """Return a dense layer that compares the energy of low bands with that of high ones."""
    frames, bands = STAGE.shape
    low = np.tile(np.where(np.arange(bands) < bands // 2, 1, -1), frames).astype(np.int8)
    graph = GraphBuilder("low or high")
    features = graph.input(
        "features", (1, frames * bands), "int8", Quantisation(scale=(26 / 255,), zero_point=(-128,))
    )
    weights = graph.constant(
        np.stack([low, -low]), Quantisation(scale=(0.01,), zero_point=(0,)), "weights"
    )
    scores = graph.add(
        Op.FULLY_CONNECTED,
        [features, weights],
        FullyConnected(),
        quantisation=Quantisation(scale=(1.0,), zero_point=(0,)),
        name="scores",
    )
    return graph.graph(scores)


@click.command()
@click.option("--device", type=click.Choice(DEVICES), default="model", show_default=True)
@click.option("--config", default="reference", show_default=True, help="A preset or a file.")
def main(device: str, config: str) -> None:
    """Add a `MicroFrontend` before the network, which computes features, and run waveforms."""
    time = np.arange(STAGE.samples) / STAGE.rate
    with matloom.load(network(), device, config, preprocess=STAGE) as session:
        for frequency in (400, 4000):
            wave = (8000 * np.sin(2 * np.pi * frequency * time)).astype(np.int16)
            (scores,) = session.run(wave)
            print(f"{frequency} Hz is {('low', 'high')[scores.argmax()]}: {scores}")


if __name__ == "__main__":
    main()
