"""Runs the digits on the simulated chip and reads its counters: where each cycle went.

python examples/reading_counters.py --config reference
"""

import click
import numpy as np

import matloom
from matloom.arch.csr import EXEC_CAUSES
from matloom.data.digits import NETWORK


@click.command()
@click.option("--config", default="nano", show_default=True, help="A preset or a file.")
def main(config: str) -> None:
    """Print a first and a second call's cycles by cause, and the use of units and bus."""
    program = matloom.compile(NETWORK, config)
    image = np.zeros(program.inputs[0].shape, np.int8)
    with matloom.load(program, device="rtl") as session:
        for call in ("first", "second"):
            session.run(image)
            report = session.report()
            print(f"{call} call: {report.cycles:,} cycles, {report.predicted_cycles:,} predicted")
            counted = 0
            for name, meaning in EXEC_CAUSES:
                cycles = report.counters[name]
                counted += cycles
                if cycles:
                    print(f"  {cycles / report.cycles:6.1%} {name}: {meaning}")
            # Each cycle has one cause.
            assert counted == report.cycles
            for unit in ("load_busy", "post_busy", "store_busy"):
                print(f"  {report.counters[unit] / report.cycles:6.1%} {unit}")
            print(f"  {report.bytes_read:,} bytes read, {report.bytes_written:,} written")


if __name__ == "__main__":
    main()
