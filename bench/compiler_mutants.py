"""Tries the compiler's checks on mutants of the scheduler, made by rule, one at a time.

    python bench/compiler_mutants.py                # into docs/results/compiler_mutants.json
    python bench/compiler_mutants.py --of-each 100  # all of them

Each mutant compiles some small networks (`support.mutant_cases`) in a process of its own. If a
program differs from the original one, a check must fail: the proof of meaning, a run on data, or
the proof of freedom from hazards. If all checks pass, the program is different but right.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

from support.mutant_cases import cases, chosen
from support.mutants import baseline, try_out
from support.reports import parse_with_report, write_report

REPORT = Path(__file__).resolve().parents[1] / "docs" / "results" / "compiler_mutants.json"


def main() -> None:
    """Try the mutants and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--of-each", type=int, default=4, help="mutants of each function")
    parser.add_argument("--seed", type=int, default=0, help="of the choice")
    arguments = parse_with_report(parser, REPORT, ("of_each", "seed"))
    networks = cases()
    expected = baseline(networks)
    results, count = [], Counter[str]()
    for mutant in chosen(arguments.seed, arguments.of_each):
        outcome = try_out(mutant, networks, expected)
        count[outcome.kind] += 1
        results.append(
            {
                "module": mutant.module,
                "function": mutant.function,
                "rule": mutant.rule,
                "place": mutant.place,
                "line": mutant.line,
                "outcome": outcome.kind,
                "changed": list(outcome.changed),
                "refused": list(outcome.refused),
                "reason": outcome.reason,
                "caught": {name: text[:160] for name, text in (outcome.caught or {}).items()},
                "difference": outcome.difference,
            }
        )
        print(f"{outcome.kind:9} {mutant}", flush=True)
        report = {
            "seed": arguments.seed,
            "of_each": arguments.of_each,
            "networks": [case.name for case in networks],
            "mutants": results,
        }
        # Partial results of an interrupted campaign are representative: mutants come in random
        # order.
        write_report(arguments.report, json.dumps(report, indent=1) + "\n")
    print(dict(count))


if __name__ == "__main__":
    main()
