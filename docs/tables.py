"""Fills the tables of README.md from the committed reports: python docs/tables.py."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"


def _marked(text: str, name: str, table: str) -> str:
    """Return the text with the table between a name's markers."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    head, rest = text.split(begin)
    _old, tail = rest.split(end)
    return f"{head}{begin}{table}{end}{tail}"


def _networks() -> str:
    lines = [
        "| at `reference` (16x16) | MACs | cycles | target | utilisation | predicted |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    report = json.loads((ROOT / "docs/results/bench_reference.json").read_text())
    for item in report["results"]:
        target = "" if item["target"] is None else f"{item['target']:,}"
        error = item["predicted_cycles"] / item["cycles"] - 1
        lines.append(
            f"| {item['name']} | {item['macs']:,} | {item['cycles']:,} | {target} "
            f"| {item['utilisation']:.3f} | {error:+.1%} |"
        )
    return "\n".join(lines) + "\n"


def _devices() -> str:
    lines = [
        "| device, preset | LUT4 | FF | DSP | block RAM | Fmax |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    reports = sorted((ROOT / "bitstreams/reports").glob("*.json"))
    if not reports:
        return "No report of a placed and routed chip is committed yet.\n"
    for path in reports:
        report = json.loads(path.read_text())
        used = {name: f"{count['used']:,}" for name, count in report["area"].items()}
        lines.append(
            f"| {path.stem} | {used['LUT4']} | {used['FF']} | {used['DSP']} | {used['BRAM']} "
            f"| {report['fmax_mhz']:.1f} MHz |"
        )
    return "\n".join(lines) + "\n"


def filled(text: str) -> str:
    """Return README's text with fresh tables."""
    return _marked(_marked(text, "networks", _networks()), "devices", _devices())


if __name__ == "__main__":
    README.write_text(filled(README.read_text()))
