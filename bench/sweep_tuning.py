"""Sweeps the constants that steer the search: predicted cycles with half and twice of each.

    python bench/sweep_tuning.py [--only NAME] MODEL...

Prints a row for each constant of `matloom.schedule.tuning` and value: the sum of predicted cycles
of a first call over all models at `nano` and `reference`, and the model that changes most. Programs
are compiled without a check, since none of the constants changes results.
"""

import argparse
from pathlib import Path

import matloom
from matloom.schedule import tuning

CONFIGS = ("nano", "reference")

#: Constants that are read when modules are imported, or that choose how many cycles are given away.
SKIPPED = {"ORDINARY_TILES", "FIRST_CALL_SLOWER", "LATER_CALLS_FASTER", "ESTIMATE_FASTER"}


def cycles(models: list[Path]) -> dict[str, int]:
    """Return the predicted cycles of a first call of each model."""
    found = {}
    for model in models:
        for config in CONFIGS:
            program = matloom.compile(str(model), config, check="none")
            found[f"{model.stem} {config}"] = program.predicted_cycles
    return found


def main() -> None:
    """Sweep all constants, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(tuning.TABLE))
    parser.add_argument("models", nargs="+", type=Path)
    arguments = parser.parse_args()
    before = cycles(arguments.models)
    print(f"as they are: {sum(before.values()):,} cycles", flush=True)
    for name in [arguments.only] if arguments.only else sorted(tuning.TABLE.keys() - SKIPPED):
        value = getattr(tuning, name)
        for other in (value // 2 or value / 2, value * 2):
            setattr(tuning, name, other)
            after = cycles(arguments.models)
            total = sum(after.values()) / sum(before.values()) - 1
            changes = {each: after[each] / before[each] - 1 for each in before}
            most = max(changes, key=lambda each: abs(changes[each]))
            print(
                f"{name} {other}: {total:+.2%}, at most {changes[most]:+.2%} ({most})", flush=True
            )
        setattr(tuning, name, value)


if __name__ == "__main__":
    main()
