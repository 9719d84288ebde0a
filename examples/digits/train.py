"""Trains the digit network, quantises it to int8 and writes the .tflite file of the demonstration.

    python -m pip install ".[train]"     # in the clone
    python examples/digits/train.py --output digits.tflite

The settings were fixed beforehand: the 360 held-out digits are only measured with, after training.
"""

import tempfile
from pathlib import Path

import click
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from ai_edge_quantizer import quantizer, recipe
from float_tflite import INPUT, SIGNATURE, float_tflite
from network import accuracy, train
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from tflite_micro import runtime

from matloom.data.digits import NETWORK, quantise, split

_LARGEST_FILE_BYTES = 200_000
_LOWEST_ACCURACY = 0.97


def _quantise(float_file: bytes, images: np.ndarray) -> bytes:
    """Return the file with int8 weights and activations; ranges are those seen on the images."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "float.tflite"
        path.write_bytes(float_file)
        work = quantizer.Quantizer(str(path), recipe.static_wi8_ai8())
        samples = [{INPUT: image[np.newaxis]} for image in images]
        ranges = work.calibrate({SIGNATURE: samples})
        return bytes(work.quantize(ranges, enable_progress_report=False).quantized_model)


def _run_micro(network: bytes, images: np.ndarray) -> np.ndarray:
    """Return the int8 outputs (n, 10) of TensorFlow Lite Micro for float images."""
    interpreter = runtime.Interpreter.from_bytes(network)
    quantisation = interpreter.get_input_details(0)["quantization_parameters"]
    scale, zero_point = quantisation["scales"][0], quantisation["zero_points"][0]
    outputs = []
    for image in quantise(images, scale, zero_point):
        interpreter.set_input(image[np.newaxis], 0)
        interpreter.invoke()
        outputs.append(interpreter.get_output(0)[0].copy())
    return np.array(outputs)


def _run_litert(network: bytes, images: np.ndarray) -> np.ndarray:
    """Return the int8 outputs (n, 10) of LiteRT's reference kernels for float images."""
    interpreter = Interpreter(
        model_content=network, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    source, result = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    outputs = []
    for image in quantise(images, *source["quantization"]):
        interpreter.set_tensor(source["index"], image[np.newaxis])
        interpreter.invoke()
        outputs.append(interpreter.get_tensor(result["index"])[0])
    return np.array(outputs)


@click.command()
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=NETWORK,
    help="Where to write the file; by default over the one that the package carries.",
)
@click.option("--epochs", type=click.IntRange(min=1), default=80, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def main(output: Path, epochs: int, seed: int) -> None:
    """Train the digit network and write it as an int8 .tflite file."""
    console = Console()
    digits = split()
    images, labels = digits.held_out_images, digits.held_out_labels

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("training", total=epochs)

        def on_epoch(loss: float) -> None:
            """Show the loss of an epoch on the progress bar."""
            progress.update(task, advance=1, description=f"training, loss {loss:.3f}")

        network = train(
            digits.train_images, digits.train_labels, epochs=epochs, seed=seed, on_epoch=on_epoch
        )

    file = _quantise(float_tflite(network), digits.train_images)
    micro, litert = _run_micro(file, images), _run_litert(file, images)
    exact = float(np.mean(np.argmax(micro, axis=1) == labels))
    console.print(f"float, held out: {accuracy(network, images, labels):.2%} of {len(labels)}")
    console.print(f"int8, held out:  {exact:.2%} of {len(labels)} (TensorFlow Lite Micro)")
    console.print(
        f"LiteRT's reference kernels: {np.mean(np.argmax(litert, axis=1) == labels):.2%}, "
        f"{int(np.sum(np.any(micro != litert, axis=1)))} of {len(labels)} outputs differ"
    )
    if exact < _LOWEST_ACCURACY:
        raise click.ClickException(
            f"int8 accuracy must be at least {_LOWEST_ACCURACY:.0%}, not {exact:.2%}: "
            "nothing was written"
        )
    if len(file) > _LARGEST_FILE_BYTES:
        raise click.ClickException(
            f"the file must be at most {_LARGEST_FILE_BYTES} bytes, not {len(file)}: "
            "nothing was written"
        )
    output.write_bytes(file)
    console.print(f"{len(file)} bytes written to {output}", soft_wrap=True)


if __name__ == "__main__":
    main()
