"""Coverage of a simulated chip: steered streams reach every declared point."""

import pytest

from matloom.arch.config import load_config
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import Opcode, Region
from matloom.arch.memory import load_memory
from matloom.coverage.coverage import Coverage
from matloom.device.covered import COVERAGE_VARIABLE, CoveredTransport, stall_kind
from matloom.device.open import open_device
from matloom.device.rtl import MemoryTiming
from matloom.toolchain.probes import with_probes

NANO = load_config("nano")


def test_timings_distinguish_instructions():
    assert stall_kind(MemoryTiming(), 4) == "steady"
    assert stall_kind(MemoryTiming(stall_per_1024=1), 4) == "withheld"
    assert stall_kind(MemoryTiming(memory=load_memory("sdram-16")), 4) == "slow"


def test_probes_need_their_modules():
    with pytest.raises(ValueError, match=r"must have a module matloom\.core\.control\.dispatch"):
        with_probes("module other (); endmodule")


def commands(*instructions):
    return b"".join(map(pack, instructions))


@pytest.mark.slow
def test_runs_add_to_coverage(tmp_path, monkeypatch):
    kept = tmp_path / "coverage.json"
    monkeypatch.setenv(COVERAGE_VARIABLE, str(kept))
    size = {"rows": 1, "planes": 1}
    long = Instruction(Opcode.LOAD, {"region": Region.INPUT, "row_bytes": 4000, **size})
    short = Instruction(Opcode.STORE, {"region": Region.OUTPUT, "row_bytes": 1, **size})
    data = commands(long, short, Instruction(Opcode.END))
    for runs in (1, 2):
        driver = open_device("rtl", NANO, memory_bytes=1 << 16)
        assert isinstance(driver.transport, CoveredTransport)
        driver.place_regions({Region.PROGRAM: len(data), Region.INPUT: 4096, Region.OUTPUT: 64})
        driver.write_region(Region.PROGRAM, 0, data)
        driver.run(0, len(data))
        driver.transport.close()
        coverage = Coverage.load(kept)
        assert (coverage.runs, coverage.instructions) == (runs, 2 * runs)
        assert coverage.hits["LOAD read then STORE"] == runs
        assert coverage.hits["STORE overtakes LOAD read"] == runs
        assert coverage.hits["LOAD read spread 0: spad_addr first steady"] == runs
        assert not coverage.hits["STORE then LOAD read"]
