"""The handwritten digits of the demo: the network, and the images to test it on.

The images are scikit-learn's `load_digits`: 1,797 scans of 8x8 pixels with 17 grey levels. Of
these, 360 are held out of training by a stratified split with seed 0. The training script and every
measurement take the split from here, so that no held-out image can slip into training.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import tflite
from numpy.typing import NDArray

from matloom.errors import MissingPackageError

#: The trained int8 network, made by `examples/digits/train.py`.
NETWORK = Path(__file__).with_name("digits.tflite")

#: Number of images kept for measuring, of 1,797.
HELD_OUT = 360

_SPLIT_SEED = 0
_WHITE = 16


@dataclass(frozen=True, kw_only=True)
class DigitsSplit:
    """The digits, split into training and held-out images.

    Images are float32 of shape (n, 8, 8, 1), from 0 (paper) to 1 (ink); labels are int64 (n,).
    """

    train_images: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    held_out_images: NDArray[np.float32]
    held_out_labels: NDArray[np.int64]


def split() -> DigitsSplit:
    """Load the digits and split them into 1,437 for training and 360 held out.

    Raises
    ------
    MissingPackageError
        scikit-learn is not installed.
    """
    # Imported here, because scikit-learn is optional; by name, because it carries no types.
    try:
        datasets = import_module("sklearn.datasets")
        model_selection = import_module("sklearn.model_selection")
    except ModuleNotFoundError:
        raise MissingPackageError("scikit-learn", "drawing handwritten digits") from None
    digits = datasets.load_digits()
    images = (digits.images[..., np.newaxis] / _WHITE).astype(np.float32)
    train_images, held_out_images, train_labels, held_out_labels = model_selection.train_test_split(
        images,
        digits.target.astype(np.int64),
        test_size=HELD_OUT,
        stratify=digits.target,
        random_state=_SPLIT_SEED,
    )
    return DigitsSplit(
        train_images=train_images,
        train_labels=train_labels,
        held_out_images=held_out_images,
        held_out_labels=held_out_labels,
    )


def held_out() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the 360 held-out digits: float32 images (360, 8, 8, 1) in 0..1, labels int64."""
    digits = split()
    return digits.held_out_images, digits.held_out_labels


def input_quantisation() -> tuple[float, int]:
    """Return scale and zero point of the packaged network's input."""
    graph = tflite.Model.GetRootAs(NETWORK.read_bytes(), 0).Subgraphs(0)
    quantisation = graph.Tensors(graph.Inputs(0)).Quantization()
    return quantisation.Scale(0), quantisation.ZeroPoint(0)


def quantise(images: NDArray[np.float32], scale: float, zero_point: int) -> NDArray[np.int8]:
    """Convert float images to int8 inputs of a network, as TensorFlow Lite's QUANTIZE does.

    The division is done in float32, halves are rounded away from zero, and values beyond int8
    saturate. `scale` and `zero_point` are those of the network's input tensor.
    """
    if not scale > 0:
        raise ValueError(f"scale must be positive, not {scale}")
    # Added in float64, because 0.5 + the float32 just below 0.5 would round up to 1 in float32.
    steps = (images / np.float32(scale)).astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(steps) + 0.5), steps)
    quantised: NDArray[np.int8] = np.clip(rounded + zero_point, -128, 127).astype(np.int8)
    return quantised


#: Number of images in the small file, for a first run.
_SMALL_FILE_IMAGES = 10


def save(folder: Path) -> Iterator[Path]:
    """Write the network and its held-out images to a folder; yield each file once it is written.

    The files are ``digits.tflite``, ``in.npz`` with ten images for `matloom run`, and
    ``labelled.npz`` with all 360 images and their labels.

    Raises
    ------
    MissingPackageError
        scikit-learn, which has the images, is not installed; ``digits.tflite`` is then written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    network, few, labelled = (folder / name for name in ("digits.tflite", "in.npz", "labelled.npz"))
    network.write_bytes(NETWORK.read_bytes())
    yield network
    images, labels = held_out()
    inputs = quantise(images, *input_quantisation())
    np.savez(few, image=inputs[:_SMALL_FILE_IMAGES])
    yield few
    np.savez(labelled, image=inputs, labels=labels)
    yield labelled
