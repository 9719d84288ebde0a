"""Runs the digit network on photos: crop, resize and scale are part of the program.

python examples/image_in_front.py --config small
"""

import click
import numpy as np

import matloom
from matloom.data.digits import NETWORK, held_out
from matloom.device.open import DEVICES
from matloom.pre import Image
from matloom.tools.explain import explain


def photo(image: np.ndarray) -> np.ndarray:
    """Return a photo, bytes (240, 320), of a digit that is given as 8x8 numbers from 0 to 1."""
    large = np.kron(image[..., 0], np.ones((30, 30)))
    margin = np.zeros((240, 40))
    return np.rint(255 * np.hstack([margin, large, margin])).astype(np.uint8)


@click.command()
@click.option("--device", type=click.Choice(DEVICES), default="model", show_default=True)
@click.option("--config", default="reference", show_default=True, help="A preset or a file.")
@click.option("--count", type=click.IntRange(1, 360), default=20, show_default=True)
def main(device: str, config: str, count: int) -> None:
    """Add an `Image` before the network, which resizes and scales, and run photos."""
    stage = Image(size=(8, 8), channels="grey", crop="centre", resize="area")
    images, labels = held_out()
    photos = [photo(image) for image in images[:count]]
    with matloom.load(NETWORK, device, config, preprocess=stage) as session:
        found = session.run(photos).argmax(axis=1)
        print(next(line for line in explain(session.program) if "on the host: " in str(line)))
    print(f"{(found == labels[:count]).sum()} of {count} photos classified right")


if __name__ == "__main__":
    main()
