"""The generated chip: Verilog that lints, and a sidecar that describes it."""

import dataclasses
import json

import pytest

from matloom.arch.config import INTERFACE_VERSION, PRESETS, Config
from matloom.toolchain.verilator import lint
from matloom_rtl.generate import TOP_NAME, generate
from matloom_rtl.lint import WAIVERS

WIDE_BUS = dataclasses.replace(Config(), rows=8, columns=16, broadcast_group=4, bus_bits=128)


@pytest.fixture(scope="module")
def nano():
    return generate(PRESETS["nano"])


def complaints(chip, folder):
    source, _sidecar = chip.write(folder)
    return {warning.kind for warning in lint([source], TOP_NAME)}


def test_complaints_are_the_waived_and_every_waiver_is_needed(nano, tmp_path):
    assert complaints(nano, tmp_path) == set(WAIVERS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "config", [pytest.param(PRESETS["small"], id="small"), pytest.param(WIDE_BUS, id="8x16-128")]
)
def test_larger_chips_complain_of_nothing_else(config, tmp_path):
    assert complaints(generate(config), tmp_path) <= set(WAIVERS)


def test_same_config_same_bytes(nano):
    assert generate(PRESETS["nano"]) == nano


def test_sidecar_describes_the_chip(nano, tmp_path):
    config = PRESETS["nano"]
    source, description = nano.write(tmp_path / "new")
    assert (source.name, description.name) == ("matloom.v", "matloom.json")
    sidecar = json.loads(description.read_text())
    assert Config.from_json(json.dumps(sidecar["config"])) == config
    assert sidecar["config_digest"] == f"{config.digest:08x}"
    assert sidecar["interface_version"] == INTERFACE_VERSION
    ports = {port["name"]: (port["direction"], port["width"]) for port in sidecar["ports"]}
    assert ports["clk"] == ports["rst"] == ("input", 1)
    assert ports["irq"] == ("output", 1)
    assert ports["m_axi_wdata"] == ("output", 32)
    assert ports["m_axi_wstrb"] == ("output", 4)
    assert ports["m_axi_rdata"] == ("input", 32)
    assert ports["s_axil_awaddr"] == ("input", 12)
    assert all(name.startswith(("clk", "rst", "irq", "s_axil_", "m_axi_")) for name in ports)
