"""Formulas for multipliers and block RAMs give the numbers that Yosys and nextpnr counted."""

import json
from pathlib import Path

import pytest

from matloom.arch.blocks import (
    columns_in_tables,
    link_block_rams,
    memory_block_rams,
    multiplier_blocks,
    own_block_rams,
)
from matloom.arch.config import Config, load_config
from matloom.tools.area import SAMPLES

REPORTS = Path(__file__).parents[3] / "bitstreams" / "reports"
UNITS = sorted(REPORTS.glob("*_units.json"))
ROUTED = [path for path in sorted(REPORTS.glob("*.json")) if path not in UNITS]
#: Samples whose multipliers and block RAMs were counted for the engine alone.
ENGINES = [item for item in json.loads(SAMPLES.read_text())["engines"] if "BRAM" in item["total"]]

#: A product of bytes takes half a multiplier of a Gowin.
BLOCKS_PER_CELL = {"ecp5": 1, "gowin": 0.5}


def test_there_are_reports():
    assert len(UNITS) >= 2
    assert any("board" in json.loads(path.read_text()) for path in ROUTED)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_engine_of_a_report(path):
    report = json.loads(path.read_text())
    config = Config(**report["config"])
    assert multiplier_blocks(config, report["columns_in_tables"]) == report["total"]["DSP"]
    assert own_block_rams(config) == report["total"]["BRAM"]


@pytest.mark.parametrize("path", ROUTED, ids=lambda path: path.stem)
def test_routed_design(path):
    report = json.loads(path.read_text())
    if not str(report["device"]).startswith("ecp5"):
        pytest.skip("formulas of boards are of blocks of 18 Kbit with one multiplier")
    if "cpu" in report:
        pytest.skip("formulas of boards are of those with a host link")
    config = Config(**report["config"])
    area, soft = report["area"], report["columns_in_tables"]
    rams = own_block_rams(config)
    if "board" in report:
        memory = report["memory"]
        rams += link_block_rams()
        masks = "dqm" not in memory.get("wired", ())
        rams += memory_block_rams(memory["kind"], memory["bytes"], config.bus_bits, masks)
    assert multiplier_blocks(config, soft) == area["DSP"]["used"]
    assert rams == area["BRAM"]["used"]
    assert soft == columns_in_tables(config, area["DSP"]["available"])


@pytest.mark.parametrize("item", ENGINES, ids=lambda item: f"{item['family']}-{item['config']}")
def test_engine_of_a_sample(item):
    config, total = load_config(item["config"]), item["total"]
    blocks_per_cell = BLOCKS_PER_CELL[item["family"]]
    assert multiplier_blocks(config, item["soft_columns"], blocks_per_cell) == total["DSP"]
    assert own_block_rams(config) == total["BRAM"]
