"""Measures the accuracy of a trained network, and looks at every tensor of one run.

python examples/accuracy.py --config small
"""

import click
import numpy as np

import matloom
from matloom.arch.config import load_config
from matloom.data.digits import NETWORK, held_out


@click.command()
@click.option("--config", default="small", show_default=True, help="A preset or a file.")
@click.option("--count", type=click.IntRange(1, 360), default=360, show_default=True)
def main(config: str, count: int) -> None:
    """Evaluate the digit network on held-out images, then look inside one run."""
    images, labels = held_out()
    # Real numbers: they are quantised by the input's scale, and the last line says so.
    print(matloom.evaluate(NETWORK, images[:count], labels[:count], config=config))

    program = matloom.compile(NETWORK, load_config(config))
    with matloom.load(program, device="fast") as session:
        (info,) = session.program.inputs
        tensors = session.run(np.zeros(info.shape, np.int8), outputs="all")
    for name, array in tensors.items():
        print(f"{name}: {array.dtype} {array.shape}, {array.min()} to {array.max()}")


if __name__ == "__main__":
    main()
