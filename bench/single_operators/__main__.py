"""Runs random files: ``python -m single_operators --first 0 --count 2000`` from `bench`."""

import sys
import time
from collections import Counter
from pathlib import Path

import click

from single_operators.campaign import draw_case, judge
from single_operators.operators import OPERATORS
from single_operators.reference import References


@click.command()
@click.option("--first", default=0, help="The first seed.")
@click.option("--count", default=2000, help="How many seeds.")
@click.option("--operator", type=click.Choice(list(OPERATORS)), help="Of this operator alone.")
@click.option("--plain", is_flag=True, help="Without oddities.")
@click.option("--config", default="nano", help="The engine.")
@click.option("--save", type=click.Path(path_type=Path), help="A folder for files that fail.")
def main(
    first: int, count: int, operator: str | None, plain: bool, config: str, save: Path | None
) -> None:
    """Compare random files of one operator on TensorFlow Lite Micro, LiteRT and Matloom.

    Each line is a failure; its seed repeats it: --first SEED --count 1.
    """
    begin, kinds = time.monotonic(), Counter[str]()
    failed = False
    with References() as references:
        for seed in range(first, first + count):
            case = draw_case(seed, operator, odd=not plain)
            verdict = judge(case, references, config)
            kinds[verdict.kind] += 1
            if verdict.failed:
                failed = True
                click.echo(str(verdict))
                if save is not None:
                    (save / f"{seed}.tflite").write_bytes(case.content)
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    click.echo(f"{count} files in {time.monotonic() - begin:.0f} s: {counts}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
