"""Proves claims about configurations: python -m matloom_rtl.formal nano --minutes 20.

Exits with 1 if a claim fails or its induction does, or if no claim is proven, as without a solver.
Claims for which the time was too short (TIMEOUT, NOT RUN) do not change that. `--report` writes the
outcomes to a JSON file: each distinct claim once, with its configurations.
"""

import argparse
import json
import sys
from collections.abc import Collection
from pathlib import Path

from matloom.arch.config import load_config
from matloom_rtl.formal.choice import choose
from matloom_rtl.formal.engine import FAILED, NOT_PROVEN, PROVEN
from matloom_rtl.formal.runner import run

__all__ = ["exit_status", "merge_results"]

#: Default configurations, those of `make formal`: the presets, a wide array with a wide bus, and
#: all number formats.
CONFIGS = (
    *("nano", "small", "reference"),
    "reference+rows=8+columns=16+bus_bits=128+windows=1+products=1",
    "small+bf16+fp16+fp8_e4m3+fp8_e5m2+weight_rows=2",
)


def merge_results(results_by_config: dict) -> list[dict]:
    """Return each distinct claim once, as in a report, with a list of its configurations.

    `configs` of a claim lists the configurations that have it.
    """
    claims: dict[tuple[str, str], dict] = {}
    for name, results in results_by_config.items():
        for result in results:
            key = (result.digest, result.unit)
            claim = claims.setdefault(key, {**result.as_dict(), "configs": []})
            claim["configs"].append(name)
    return list(claims.values())


def main() -> int:
    """Run the proofs of one or more configurations; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("configs", nargs="*", default=CONFIGS, help="presets or JSON files")
    parser.add_argument("--minutes", type=float, default=120.0, help="for each configuration")
    parser.add_argument("--quick", action="store_true", help="prove only the quick set")
    parser.add_argument("--report", type=Path, help="write the outcome of each claim")
    parser.add_argument("--times", type=Path, help="an earlier report, for --budget")
    parser.add_argument("--budget", type=float, help="seconds of proofs, by --times")
    arguments = parser.parse_args()
    if (arguments.budget is None) != (arguments.times is None):
        parser.error("--budget and --times go together")
    chosen = None
    if arguments.times:
        report = json.loads(arguments.times.read_text())
        chosen = choose(report, arguments.configs, arguments.budget)
        if not chosen:
            parser.error(f"{arguments.times} has no proof of these that fits")
    found = {}
    for name in arguments.configs:
        print(f"{name}:", flush=True)
        found[name] = run(
            load_config(name),
            arguments.minutes,
            quick=arguments.quick,
            only=None if chosen is None else chosen[name],
            say=lambda line: print(f"  {line}", flush=True),
        )
    claims = merge_results(found)
    verdicts = [claim["verdict"] for claim in claims]
    print(", ".join(f"{verdicts.count(each)} {each}" for each in dict.fromkeys(verdicts)))
    if arguments.report:
        report = {"configs": list(found), "quick": arguments.quick, "claims": claims}
        arguments.report.write_text(json.dumps(report, indent=2) + "\n")
    return exit_status(verdicts)


def exit_status(verdicts: Collection[str]) -> int:
    """Return 1 if a claim fails or its induction does, or if no claim is proven; else 0."""
    return int(FAILED in verdicts or NOT_PROVEN in verdicts or PROVEN not in verdicts)


if __name__ == "__main__":
    sys.exit(main())
