"""The demo: classifies handwritten digits with a trained network on the chip."""

import time
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from matloom.data.digits import NETWORK, held_out, input_quantisation, quantise
from matloom.ir.graph import Array
from matloom.runtime import Session, load

#: Minimum accuracy to pass.
_MIN_ACCURACY = 0.97

_SHADES = " .:-=+*#%@"
_SHOWN_IMAGES = 4


def run_demo(console: Console, device: str = "rtl", config: str = "reference") -> bool:
    """Classify the 360 held-out digits and print the results; return whether the demo passes.

    It passes if the outputs equal those of the functional model, and the accuracy is at least
    `_MIN_ACCURACY`.
    """
    images, labels = held_out()
    inputs = quantise(images, *input_quantisation())
    console.print(
        f"Matloom: {len(inputs)} handwritten digits on [bold]{device}[/], configuration {config}"
    )
    with load(NETWORK, device=device, config=config) as session:
        started = time.perf_counter()
        outputs = np.concatenate(list(_classify_images(session, inputs, console)))
        seconds = time.perf_counter() - started
        report = session.report()
    with load(NETWORK, device="model", config=config) as model:
        agreed = bool(np.array_equal(outputs, model.run(inputs)))

    predictions = outputs.argmax(axis=1)
    accuracy = float((predictions == labels).mean())
    _print_digits(console, images, predictions, labels)
    console.print(f"accuracy            {accuracy:.2%} of {len(labels)} digits")
    console.print(f"cycles per image    {report.cycles:,} ({report.cycles_source})")
    console.print(f"utilisation         {report.utilisation:.3f} of the multipliers")
    console.print(f"simulation          {len(inputs) / seconds:.1f} images/s")
    verdict = "bit for bit" if agreed else "[red]NOT[/] bit for bit"
    console.print(f"functional model    agrees {verdict} on all {len(labels)} outputs")
    return agreed and accuracy >= _MIN_ACCURACY


def _classify_images(session: Session, inputs: Array, console: Console) -> Iterator[Array]:
    """Yield the outputs of one image after another, and show the progress."""
    for index in track(range(len(inputs)), "classifying", console=console):
        yield session.run(inputs[index : index + 1])


def _print_digits(console: Console, images: Array, predictions: Array, labels: Array) -> None:
    """Draw a few digits with their predictions, wrongly classified ones first."""
    order = np.argsort(predictions == labels, kind="stable")[:_SHOWN_IMAGES]
    table = Table.grid(padding=(0, 2))
    drawings = []
    for index in order:
        pixels = (images[index, :, :, 0] * (len(_SHADES) - 1)).round().astype(int)
        lines = ["".join(_SHADES[value] * 2 for value in row) for row in pixels]
        drawings.append("\n".join([*lines, f"read as {predictions[index]}"]))
    table.add_row(*drawings)
    console.print(table)
