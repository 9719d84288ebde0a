"""Cost of fields: the stored report fits today's configurations, and differences are shown."""

import json

import pytest

from matloom.arch.config import Config, load_config
from matloom.arch.generate import area_costs
from matloom.arch.generate.area_costs import REPORT

KEPT = json.loads(REPORT.read_text())


@pytest.mark.parametrize("change", ["", *KEPT["changes"]])
def test_kept_configurations_can_be_built_still(change):
    item = KEPT["changes"][change] if change else KEPT["base"]
    wanted = load_config("+".join([KEPT["preset"], *filter(None, [change])]))
    assert Config.from_json(json.dumps(item["config"])) == wanted
    assert len(item["config_digest"]) == 8
    assert int(item["config_digest"], 16)
    assert item["versions"] == KEPT["base"]["versions"]


def test_every_change_is_another_configuration():
    digests = [KEPT["base"]["config_digest"]]
    digests += [item["config_digest"] for item in KEPT["changes"].values()]
    assert len(set(digests)) == len(digests)


def test_differences_have_their_sign(tmp_path, monkeypatch):
    def item(tables, registers, multipliers):
        total = {"COMB": tables, "FF": registers, "DSP": multipliers, "BRAM": 3}
        return {"config_digest": "01234567", "versions": {"yosys": "0.70"}, "total": total}

    changes = {"one=0": item(9000, 5000, 4), "two=1": item(11500, 5001, 2)}
    changes["old=1"] = {**item(9000, 5000, 4), "base": item(8900, 5010, 4)["total"]}
    report = {"preset": "nano", "device": "ecp5-85k", "base": item(10000, 5000, 4)}
    (tmp_path / "knobs.json").write_text(json.dumps({**report, "changes": changes}))
    monkeypatch.setattr(area_costs, "REPORT", tmp_path / "knobs.json")
    text = area_costs.area_cost_table()
    assert "`nano` (10,000 tables, 5,000 flip-flops, digest `01234567`)" in " ".join(text.split())
    assert "| `one=0` | -1,000 | - | - | - |" in text
    assert "| `two=1` | +1,500 | +1 | -2 | - |" in text
    assert "| `old=1` | +100 | -10 | - | - |" in text
