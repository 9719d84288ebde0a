"""Classifies a few handwritten digits with the Python interface.

python examples/run_network.py --device rtl --config reference
"""

import click
import numpy as np

import matloom
from matloom.data.digits import NETWORK, held_out, input_quantisation, quantise
from matloom.device.open import DEVICES


@click.command()
@click.option("--device", type=click.Choice(DEVICES), default="rtl", show_default=True)
@click.option("--config", default="reference", show_default=True, help="A preset or a file.")
@click.option("--count", type=click.IntRange(1, 360), default=5, show_default=True)
def main(device: str, config: str, count: int) -> None:
    """Run the digit network on a device and print what it sees, then the report."""
    images, labels = held_out()
    inputs = quantise(images[:count], *input_quantisation())
    session = matloom.load(NETWORK, device=device, config=config)
    for image, label in zip(inputs, labels, strict=False):
        probabilities = session.run(image[np.newaxis])
        print(f"a handwritten {label} is read as {np.argmax(probabilities)}")
    print(session.report())


if __name__ == "__main__":
    main()
