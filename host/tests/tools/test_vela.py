"""Parsing of Vela's output in bench/vela.py, with a stand-in for Arm's compiler."""

import importlib.util
from pathlib import Path

import pytest

from matloom.data.digits import NETWORK

_PATH = Path(__file__).resolve().parents[3] / "bench" / "vela.py"
_SPEC = importlib.util.spec_from_file_location("vela", _PATH)
vela = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(vela)

#: Says what it was told, and writes a summary as Vela 5.2 does, of fewer columns.
_STAND_IN = """#!/bin/sh
while [ "$1" != --output-dir ]; do words="$words $1"; shift; done
printf 'network,cycles_npu,cycles_total\\nnet,1,{cycles}\\n' > "$2/net_summary_internal.csv"
echo "$words" > {told}
echo 'CPU operators = {cpu} (2.6%)'
echo 'NPU operators = {npu} (97.4%)'
exit {status}
"""


@pytest.fixture
def stand_in(tmp_path):
    def write(**values):
        path = tmp_path / "vela"
        values = {"cycles": "1234.0", "cpu": 0, "npu": 5, "status": 0} | values
        path.write_text(_STAND_IN.format(told=tmp_path / "told", **values))
        path.chmod(0o755)
        return str(path)

    return write


def test_an_estimate(stand_in, tmp_path):
    found = vela.estimate(stand_in(cpu=2), NETWORK, "ethos-u85-256")
    assert found.pop("seconds") >= 0
    assert found == {"engine_operators": 5, "other_operators": 2, "estimated_cycles": 1234}
    told = (tmp_path / "told").read_text()
    assert "--accelerator-config ethos-u85-256" in told
    assert "--system-config Ethos_U85_SYS_Flash_High --memory-mode Sram_Only" in told


def test_a_network_without_engine_steps_has_no_cycles(stand_in):
    found = vela.estimate(stand_in(npu=0, cpu=9, cycles="nan"), NETWORK, "ethos-u55-256")
    assert found["estimated_cycles"] is None


def test_refusals_of_vela_are_reported(stand_in):
    found = vela.estimate(stand_in(status=3), NETWORK, "ethos-u55-256")
    assert found == {"error": "NPU operators = 5 (97.4%)"}


def test_a_command_that_is_absent():
    with pytest.raises(SystemExit, match=r"nowhere is absent: pip install ethos-u-vela"):
        vela.command_of("nowhere")
