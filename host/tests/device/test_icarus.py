"""The shipped Verilog in Icarus Verilog: a second simulator, with four states, and no X.

Registers and memories have no initial values, and the reset takes two cycles. Tests are skipped
without `iverilog`; any version from 11 on works.
"""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import matloom
from matloom.arch.config import PRESETS
from matloom.data.digits import NETWORK
from matloom.device.driver import Driver
from matloom.runtime import load
from matloom_rtl.generate import generate
from support.missing_resets import RESETS, missing_resets
from support.register_log import RegisterLog

CONFIG = PRESETS["nano"]
MEMORY_BYTES = 1 << 16
#: More than all runs take.
CYCLES = 60_000
BENCH = Path(__file__).with_name("four_states_bench.v")

#: The always blocks that Yosys writes begin with a register that starts them, no part of the chip.
_IDIOM = "dump_module"
_INITIAL = re.compile(r"^  initial begin\n(?:    .*\n)*?  end\n", re.MULTILINE)
_REGISTER = re.compile(rf"^(  reg (?!.*{_IDIOM}).*?) +?= .*;$", re.MULTILINE)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("iverilog"), reason="Icarus Verilog is not installed"),
]


def without_initial_values(verilog):
    """Return a text in which only read-only tables have initial contents.

    A space ends an escaped name.
    """

    def initial(block):
        name = block[0].split("\n")[1].strip().partition("[")[0].strip()
        module = verilog[: block.start()].rpartition("\nmodule ")[2]
        module += verilog[block.end() :].partition("\nendmodule")[0]
        written = re.search(rf"^ +{re.escape(name)} ?\[.*<=", module, re.MULTILINE)
        return "" if written else block[0]

    return _REGISTER.sub(r"\1 ;", _INITIAL.sub(initial, verilog))


def simulate(folder, verilog, recorder, patience=20):
    """Return the lines that the bench prints, and memory after each run.

    It gives up after a number of undefined outputs.
    """
    (folder / "matloom.v").write_text(verilog)
    recorder.write(folder)
    macros = {
        "MEMORY_BYTES": MEMORY_BYTES,
        "OPERATIONS": len(recorder.operations),
        "CYCLES": CYCLES,
        "PATIENCE": patience,
        "IDLE_ID": "1'bx",
    }
    command = ["iverilog", "-g2005", "-o", "chip.vvp", "-s", "bench"]
    command += [f"-D{name}={value}" for name, value in macros.items()]
    subprocess.run([*command, str(BENCH), "matloom.v"], cwd=folder, check=True)
    done = subprocess.run(
        ["vvp", "-n", "chip.vvp"], cwd=folder, check=True, capture_output=True, text=True
    )
    paths = [folder / f"after_{number}.hex" for number in range(len(recorder.before))]
    return done.stdout.splitlines(), [bytes_of(path) for path in paths if path.is_file()]


def bytes_of(path):
    """Return the bytes of a file that Icarus wrote; -1 for a byte that is not fully defined."""
    words = re.sub("//.*", "", path.read_text()).split()
    return np.array([int(word, 16) if word.isalnum() and "x" not in word else -1 for word in words])


@pytest.fixture(scope="module")
def recorder(tmp_path_factory):
    """Return the accesses of a driver that runs an image, from a .mloom file."""
    path = tmp_path_factory.mktemp("digits") / "digits.mloom"
    matloom.compile(NETWORK, config=CONFIG).save(path)
    recorder = RegisterLog(CONFIG, MEMORY_BYTES)
    images = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1), np.int8)
    session = load(path, device=Driver(recorder, CONFIG))
    found = session.run(images)
    expected = load(NETWORK, device="fast", config=CONFIG).run(images)
    assert np.array_equal(found, expected)
    return recorder


def test_the_digits_network_of_a_file(tmp_path, recorder):
    """Memory equals the model's, and no valid output is X."""
    verilog = without_initial_values(generate(CONFIG).verilog)
    assert not re.search(rf"^  reg (?!.*{_IDIOM}).*=", verilog, re.MULTILINE)
    lines, found = simulate(tmp_path, verilog, recorder)
    assert re.fullmatch(rf"DONE {len(recorder.before)} runs, \d+ cycles, 0 undefined", lines[-1])
    assert len(found) == len(recorder.after) > 0
    for number, memory in enumerate(recorder.after):
        assert np.array_equal(found[number], memory), f"run {number}"
    assert any((a != b).any() for a, b in zip(recorder.before, recorder.after, strict=True))


@pytest.mark.parametrize("number", range(1, len(RESETS) + 1), ids=RESETS)
def test_a_missing_reset_is_noticed(tmp_path, recorder, number):
    """Some output is X, or the run never ends."""
    mutants = without_initial_values(missing_resets(generate(CONFIG).verilog))
    wire = "wire [15:0] mutsel"
    assert f"{wire};" in mutants
    verilog = mutants.replace(f"{wire};", f"{wire} = 16'd{number};")
    lines, _found = simulate(tmp_path, verilog, recorder, patience=1)
    assert any(line.startswith(("UNDEFINED", "HANGS")) for line in lines)
