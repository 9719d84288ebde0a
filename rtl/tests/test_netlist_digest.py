"""Reports of area and clock name their netlist; pages mark those of an earlier one."""

import json
from pathlib import Path

import chip_tables
import netlists
import pytest

from matloom.errors import MissingPackageError
from matloom_rtl.netlist_digest import netlist_digest

ROOT = Path(__file__).resolve().parents[2]
VERILOG = "module a(b);\n  (* keep *)\n  input b; // a bit\n  assign c = b & 1'h1;\nendmodule\n"


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("// a bit", "// no bit", True),
        ("// a bit\n", "/* two\nlines */\n", True),
        ("  (* keep *)\n", "", True),
        ("  assign", "\n\tassign", True),
        ("b & 1", "b | 1", False),
        ("input", "output", False),
    ],
)
def test_a_digest_is_of_what_is_built(old, new, same):
    assert old in VERILOG
    assert (netlist_digest(VERILOG.replace(old, new)) == netlist_digest(VERILOG)) == same


def test_a_row_is_marked(tmp_path, monkeypatch):
    kept = tmp_path / "netlists.json"
    kept.write_text(json.dumps({"nano": "1234"}))
    monkeypatch.setattr(chip_tables, "_NETLISTS", kept)
    marks = {
        "same": chip_tables.netlist_of({"name": "nano", "netlist_digest": "1234"}),
        "other": chip_tables.netlist_of({"name": "nano", "netlist_digest": "4321"}),
        "none": chip_tables.netlist_of({"name": "nano"}),
        "unknown": chip_tables.netlist_of({"name": "small", "netlist_digest": "1234"}),
    }
    assert marks == {"same": "today", "other": "earlier", "none": "earlier", "unknown": "earlier"}


def reported():
    for path in sorted((ROOT / "bitstreams" / "reports").rglob("*.json")):
        if not path.stem.endswith("_units"):
            yield path.stem, json.loads(path.read_text())


WITH_DIGEST = {name: report for name, report in reported() if "netlist_digest" in report}


def test_each_report_with_a_digest_is_compared():
    assert json.loads(netlists.NETLISTS.read_text()).keys() == WITH_DIGEST.keys()


def test_digests_that_cannot_be_renewed_stay(tmp_path, monkeypatch):
    def verilog_of(report):
        if report["name"] == "soc":
            raise MissingPackageError("ziglang", "compiling")
        return VERILOG

    monkeypatch.setattr(netlists, "verilog_of", verilog_of)
    for name in ("nano", "small", "soc"):
        text = json.dumps({"name": name, "netlist_digest": "old"})
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "board.json").write_text("{}")
    known = {"small": "kept", "soc": "kept"}
    today = netlist_digest(VERILOG)
    assert netlists.digests(tmp_path, known) == {"nano": today, "small": today, "soc": "kept"}
    assert netlists.digests(tmp_path, known, ["nano"]) == {
        "nano": today,
        "small": "kept",
        "soc": "kept",
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_DIGEST)
def test_digests_are_those_of_today(name):
    report = WITH_DIGEST[name]
    if "cpu" in report:
        pytest.importorskip("ziglang", reason="its ROM needs a compiler: extra firmware")
    kept = json.loads(netlists.NETLISTS.read_text())[name]
    assert netlist_digest(netlists.verilog_of(report)) == kept


@pytest.mark.slow
def test_a_report_is_generated_again(nano):
    """The Verilog generated for a report of `nano` equals that of `nano` itself."""
    report = {"config": nano.config.as_dict()}
    assert netlists.verilog_of(report) == nano.verilog
