"""The engine in a LiteX SoC: all ports connected, and a network run through its interconnect."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import matloom
from matloom.arch.config import load_config
from matloom.data.digits import NETWORK
from matloom.device.driver import Driver
from matloom.toolchain.find_verilator import find_verilator
from matloom_rtl.generate import generate
from matloom_rtl.integration import write
from support.register_log import RegisterLog

pytest.importorskip("litex", reason="LiteX is not installed: extra integration")

HERE = Path(__file__).parent
ORIGIN, RAM_BYTES = 0xF0010000, 1 << 16


def make_soc(chip, folder, standard="wishbone"):
    """Write a SoC with this chip into a folder; return its Verilog."""
    (folder / "chip").mkdir()
    chip.write(folder / "chip")
    write(chip, folder / "chip")
    arguments = [str(folder / "chip"), str(ORIGIN), str(RAM_BYTES), standard]
    command = [sys.executable, str(HERE / "litex_soc.py"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(folder / "chip" / "matloom.v")]
    return (folder / "soc.v").read_text()


def test_each_port_is_connected_with_its_width(nano, tmp_path):
    soc = make_soc(nano, tmp_path)
    engine = re.search(r"^matloom matloom\((.*?)^\);", soc, re.MULTILINE | re.DOTALL)[1]
    connected = dict(re.findall(r"^\s*\.(\w+) *\((.*?)\),?$", engine, re.MULTILINE))
    assert connected.keys() == {port["name"] for port in nano.sidecar["ports"]}
    for port in nano.sidecar["ports"]:
        name, *cut = re.fullmatch(r"(\w+)(?:\[(\d+):0\])?", connected[port["name"]]).groups()
        declared = re.search(rf"^(?:wire|reg) +(?:\[(\d+):0\])? *{name}\b", soc, re.MULTILINE)
        high = int((cut[0] if cut[0] else declared[1]) or 0)
        assert high + 1 == port["width"], port["name"]


def simulate(folder, operations):
    """Run the bench in Verilator, as LiteX does; in Icarus, LiteX's Verilog never settles."""
    macros = {"OPERATIONS": operations, "CYCLES": 400_000, "ORIGIN": f"32'd{ORIGIN}"}
    verilator = find_verilator()
    command = [verilator.binary, "--binary", "--timing", "-Wno-fatal", "--top-module", "bench"]
    command += [f"-D{key}={value}" for key, value in macros.items()]
    command += [HERE / "litex_bench.v", "soc.v", "chip/matloom.v", "-o", "bench"]
    environment = {**os.environ, **verilator.environment}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    done = subprocess.run(["obj_dir/bench"], cwd=folder, capture_output=True, text=True)
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "standard"),
    [("nano", "wishbone"), ("nano", "axi-lite"), ("nano+bus_bits=64", "axi")],
)
def test_a_network_runs_through_the_interconnect(tmp_path, name, standard):
    """Memory equals the functional model's: bursts, strobes and registers work."""
    config = load_config(name)
    log = RegisterLog(config, RAM_BYTES)
    images = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1), np.int8)
    matloom.compile(NETWORK, config=config).save(tmp_path / "digits.mloom")
    matloom.load(tmp_path / "digits.mloom", device=Driver(log, config)).run(images)
    assert log.before
    log.write(tmp_path, word_bytes=4)
    make_soc(generate(config), tmp_path, standard)
    printed = simulate(tmp_path, len(log.operations))
    assert re.search(rf"^DONE {len(log.before)} runs", printed, re.MULTILINE), printed
    for number, memory in enumerate(log.after):
        text = re.sub("//.*", "", (tmp_path / f"after_{number}.hex").read_text())
        found = np.array([int(word, 16) for word in text.split()], "<u4").view(np.uint8)
        assert np.array_equal(found, memory), f"run {number}"
