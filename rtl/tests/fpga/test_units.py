"""Area by unit: handmade netlists with known shares, and the definition of growth."""

import json

from matloom_rtl.fpga.size import growth
from matloom_rtl.fpga.units import area_by_unit, read_cells, total, unit_of


def cell(kind, inputs, outputs):
    return {
        "type": kind,
        "port_directions": {"A": "input", "Z": "output"},
        "connections": {"A": inputs, "Z": outputs},
    }


def register(source, wire):
    return cell("TRELLIS_FF", [source], [wire])


def test_units_are_two_names_below_the_core():
    assert unit_of("chip.core.control.dispatch.bounds.total_TRELLIS_FF_Q") == "control.dispatch"
    assert unit_of("chip.core.load.ahead_TRELLIS_FF_Q") == "load"
    assert unit_of("chip.core.post$7.results$144.level_TRELLIS_FF_Q") == "post.results"
    assert unit_of("chip.core.reset_TRELLIS_FF_Q") == "core"
    assert unit_of("out_shift_TRELLIS_FF_Q_3") == "other"


def test_logic_counts_for_the_unit_it_drives():
    """A table drives a register of a and, through another table, two of b and one of c."""
    cells = {
        "shared": cell("LUT4", ["0", 1], [10]),
        "further": cell("LUT4", [10, 11], [12]),
        "carry": cell("CCU2C", [1, 2], [13]),
        "alone": cell("LUT4", [1], [99]),
        "x.core.a.r": register(10, 20),
        "x.core.b.r": register(12, 21),
        "x.core.b.s": register(12, 22),
        "x.core.c.r": register(12, 23),
        "x.core.c.m.ram": cell("TRELLIS_DPR16X4", [13], [24]),
        "x.core.c.block": cell("DP16KD", [24], [25]),
        "x.core.a.product": cell("MULT18X18D", [25], [26]),
    }
    area = area_by_unit(cells)
    # Half of `shared` is for a, half for `further`, which is 2/3 for b and 1/3 for c.
    assert area["a"] == {"COMB": 0.5, "FF": 1, "DSP": 1, "BRAM": 0}
    assert area["b"] == {"COMB": 1, "FF": 2, "DSP": 0, "BRAM": 0}
    assert area["c"] == {"COMB": 0.5, "FF": 1, "DSP": 0, "BRAM": 1}
    assert area["c.m"]["COMB"] == 4 + 2
    assert area["other"]["COMB"] == 1
    assert total(area) == {"COMB": 4 + 2 + 3, "FF": 4, "DSP": 1, "BRAM": 1}


def test_cells_of_a_gowin_are_counted():
    """A carry and a wide multiplexer before a register, a memory, two small multipliers."""
    cells = {
        "carry": cell("ALU", [1], [10]),
        "wide": cell("MUX2_LUT5", [10], [11]),
        "x.core.a.r": cell("DFFRE", [11], [20]),
        "x.core.a.m": cell("RAM16SDP4", [20], [21]),
        "x.core.b.p": cell("MULT9X9", [21], [22]),
        "x.core.b.q": cell("MULT9X9", [21], [23]),
        "x.core.b.block": cell("SDPX9B", [22], [24]),
    }
    assert area_by_unit(cells) == {
        "a": {"COMB": 1 + 4, "FF": 1, "DSP": 0, "BRAM": 0},
        "b": {"COMB": 0, "FF": 0, "DSP": 1, "BRAM": 1},
    }


def test_the_top_module_is_read(tmp_path):
    cells = {"r": register(1, 2)}
    modules = {
        "LUT4": {"attributes": {"blackbox": "1"}, "cells": {}},
        "chip": {"attributes": {"top": "00000000000000000000000000000001"}, "cells": cells},
    }
    path = tmp_path / "netlist.json"
    path.write_text(json.dumps({"modules": modules}))
    assert read_cells(path) == cells


def test_growth_beyond_two_per_cent_fails():
    kept = {"total": {"COMB": 10_000, "FF": 1000}}
    assert growth(kept, {"total": {"COMB": 10_200, "FF": 900}}) == []
    tables, registers = growth(kept, {"total": {"COMB": 10_201, "FF": 1021}})
    assert "COMB must be at most 2% above the 10,000 of the kept report, not 10,201" in tables
    assert "must be at most 2% above the 1,000 of the kept report, not 1,021 (+2.1%)" in registers
