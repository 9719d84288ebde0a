"""Feeds a stateful network with frames of two sources in turn.

    python examples/frame_by_frame.py --device rtl --config nano
    python examples/frame_by_frame.py --network hey_jarvis.tflite --device model

Without --network it is a wake word of two layers with random weights. What it has heard stays in
the engine's memory between calls; `state` and `restore` let one session serve several sources.
"""

from pathlib import Path

import click
import numpy as np

import matloom
from matloom.data.streaming import streaming_network


@click.command()
@click.option("--network", type=click.Path(exists=True, path_type=Path), help="A .tflite file.")
@click.option("--device", default="model", show_default=True, help="rtl or model.")
@click.option("--config", default="nano", show_default=True, help="A preset or a file.")
@click.option("--count", type=click.IntRange(1, 1000), default=5, show_default=True)
def main(network: Path | None, device: str, config: str, count: int) -> None:
    """Run frames of two sources alternately and print the network's output for each."""
    noise = np.random.default_rng(0)
    model = streaming_network(0) if network is None else network
    with matloom.load(model, device=device, config=config) as session:
        (info,) = session.program.inputs
        heard = [session.state, session.state]
        for frame in range(count):
            for source in (0, 1):
                session.restore(heard[source])
                output = session.run(noise.integers(-128, 128, info.shape).astype(info.dtype))
                heard[source] = session.state
                print(f"source {source}, frame {frame}: {output.ravel()[:4]}")
        print(session.report())


if __name__ == "__main__":
    main()
