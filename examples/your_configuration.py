"""Describes an engine of your own, runs the digits on it, and generates it.

python examples/your_configuration.py --output chip
"""

from dataclasses import replace
from pathlib import Path

import click

import matloom
from matloom.arch.config import PRESETS
from matloom.data.digits import NETWORK

#: Twice the columns of `nano`, twice its scratchpad, and the bus of `small`.
CONFIG = replace(PRESETS["nano"], columns=8, spad_bytes=64 * 1024, acc_bytes=8 * 1024, bus_bits=64)


@click.command()
@click.option("--output", type=click.Path(path_type=Path), help="A folder for the chip.")
def main(output: Path | None) -> None:
    """Run the digits on a custom engine and on `nano`; generate the engine if `output` is given."""
    for name, config in (("nano", PRESETS["nano"]), ("your own", CONFIG)):
        program = matloom.compile(NETWORK, config)
        used = program.utilisation(program.predicted_cycles)
        print(
            f"{name}: {config.rows}x{config.columns}, {config.spad_bytes:,} bytes of scratchpad, "
            f"digest {config.digest:08x}: {program.predicted_cycles:,} cycles predicted, "
            f"utilisation {used:.3f}"
        )
    if output is not None:
        from matloom_rtl.generate import generate

        for path in generate(CONFIG).write(output):
            print(path)
        # Every command takes such a file: matloom explain digits.tflite --config chip/config.json
        (output / "config.json").write_text(CONFIG.to_json())


if __name__ == "__main__":
    main()
