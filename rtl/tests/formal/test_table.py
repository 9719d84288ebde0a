"""Proofs of a chip: each kind, for the units that exist."""

from collections import defaultdict

import pytest

from matloom.arch.config import load_config
from matloom_rtl.formal.table import proofs_of


@pytest.mark.slow
def test_every_unit_has_its_proofs():
    found = defaultdict(set)
    for proof in proofs_of(load_config("nano+bf16+float_rows=2+weight_rows=2+products=1")):
        found[proof.kind].add(proof.unit.split(",")[0])
    assert found == {
        "queues": {
            *("UncheckedFIFO", "CreditQueue", "SkidBuffer", "StreamRegister"),
            *("SyncFIFO", "SyncFIFOBuffered"),
        },
        "addresses": {"Loader", "Outputs", "Parameters", "Positions", "Rows", "Walk", "Windows"},
        "places": {"Execute", "Lanes", "Parameters", "Reader", "Sequencer", "Writer"},
        "bounds": {"Bounds", "Legality"},
        "bursts": {"Bursts"},
        "dependencies": {"Control", "Dispatch", "InstructionMemory", "UnitQueue"},
        "bus": {"Fetch", "Load", "Registers", "SharedReadPort", "Store"},
        "registers": {"Registers", "Timestamps"},
        "faults": {"Supervisor"},
        "scratchpad": {"Gather"},
        "memory": {"Chunks", "DataPath", "Merge", "Port", "SdramController", "Share", "Unanswered"},
        "requantising": {"Lane", "Numbers", "Products", "Quotient"},
        "conversions": {"Narrow", "Widen"},
    }
