"""Compiles a TFLite network, shows where operators run, runs it once and prints the cost.

python examples/your_network.py NET.tflite --device rtl --config small
"""

from pathlib import Path

import click
import numpy as np
from rich.console import Console

import matloom
from matloom.data.digits import NETWORK
from matloom.device.open import DEVICES
from matloom.tools.explain import explain


def random_inputs(program: matloom.Program) -> dict[str, np.ndarray]:
    """Return an input of each name: random integers of its type, or normal floats."""
    generator = np.random.default_rng(0)
    inputs = {}
    for info in program.inputs:
        dtype = np.dtype(info.dtype)
        if dtype.kind == "f":
            inputs[info.name] = generator.standard_normal(info.shape).astype(dtype)
        else:
            limits = np.iinfo(dtype)
            inputs[info.name] = generator.integers(limits.min, limits.max + 1, info.shape, dtype)
    return inputs


@click.command()
@click.argument("network", type=click.Path(exists=True, path_type=Path), default=NETWORK)
@click.option("--device", type=click.Choice(DEVICES), default="model", show_default=True)
@click.option("--config", default="reference", show_default=True, help="A preset or a file.")
def main(network: Path, device: str, config: str) -> None:
    """Compile NETWORK (the digits, if none), explain it, run it, and print the report."""
    console = Console()
    program = matloom.compile(network, config)
    for part in explain(program):
        console.print(part)
    with matloom.load(program, device=device) as session:
        outputs = session.run(random_inputs(program))
        for name, array in outputs.items():
            print(f"output {name}: {array.dtype} {array.shape}")
        print(session.report())


if __name__ == "__main__":
    main()
