"""The report on mutants of the netlist: verdicts, those kept from an earlier run, and reasons."""

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from mutant_yosys import module_of

REPORT = Path(__file__).resolve().parents[1] / "docs" / "results" / "netlist_mutants.json"

#: Verdicts: noticed by the first streams, by more of them, by a proof, by nothing; not told apart
#: by any input of the module, or by none that it has in the chip, with a reason.
STREAMS, MORE_STREAMS, PROOFS, NOTHING = "streams", "more streams", "proofs", "nothing"
EQUIVALENT, NO_DIFFERENCE = "equivalent", "no difference"

#: Mutants that make no difference in the chip, by netlist, with reasons.
REASONS = Path(__file__).with_name("netlist_equivalent.json")


def digest_of(folder: Path) -> str:
    """Return the digest of the chip that was written into a folder."""
    return hashlib.sha256((folder / "chip.v").read_bytes()).hexdigest()[:16]


def reusable_verdicts(before: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    """Return the verdicts of an earlier report; none if its netlist or its selection differs."""
    same = all(before.get(key) == report[key] for key in report if key != "mutants")
    return dict(before["mutants"]) if same else {}


def unit_of(mutant: str) -> str:
    """Return the unit of a mutant: the second level below the core, without Yosys' numbers."""
    parts = [re.sub(r"\$\d+$", "", part) for part in module_of(mutant).split(".")]
    return ".".join(parts[2:4]) or ".".join(parts)


def give_reasons(report: dict[str, Any]) -> None:
    """Mark survivors known to make no difference, with the reasons stored for the netlist."""
    reasons = json.loads(REASONS.read_text()).get(report["netlist"], {})
    for mutant, item in report["mutants"].items():
        if item["verdict"] == NOTHING and mutant in reasons:
            item.update(verdict=NO_DIFFERENCE, by=reasons[mutant])


def write(report: dict[str, Any]) -> None:
    """Write the report to docs/results/netlist_mutants.json."""
    REPORT.write_text(json.dumps(report, indent=1) + "\n")


def summary(verdicts: dict[str, Any]) -> str:
    """Return the number of mutants by verdict, and the share that was noticed."""
    count = Counter(item["verdict"] for item in verdicts.values())
    real = sum(count.values()) - count[EQUIVALENT] - count[NO_DIFFERENCE]
    found = count[STREAMS] + count[MORE_STREAMS] + count[PROOFS]
    return f"{dict(count)}; {found} of {real} are noticed: {found / max(real, 1):.1%}"
