"""A whole board as mapped by Yosys to ECP5 cells, in Verilator, with a PLL in real time."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matloom.device.line_simulation import HARNESS, LineSimulation, SimulatorSources
from matloom.device.line_simulation import build as build_line
from matloom.device.simulator import cached_or_built, source_digest

_HARNESS = Path(__file__).parent / "harness" / "netlist_board.cpp"

#: Fraction by which the far end's bits are too short: oscillators never agree.
_FAST = 0.004

#: Baud rate that the host is told: a bit takes some milliseconds here.
_NAMED_BAUD = 300

#: Approximate minutes of a build.
_MINUTES = 10.0


def _build(plan: Any, on_line: Callable[[str], None] | None) -> Path:
    """Return the simulator library of a plan's netlist, cached or newly built."""
    from matloom_rtl.fpga.netlist import yosys_version

    harness = _HARNESS.read_text()
    harness += "".join(path.read_text() for path in sorted((HARNESS / "linked").iterdir()))
    digest = hashlib.sha256(source_digest(plan.config, "", "none").encode())
    for part in (plan.verilog, yosys_version(), harness, Path(__file__).read_text()):
        digest.update(part.encode() + b"\0")
    return cached_or_built(
        digest.hexdigest(),
        plan.config,
        lambda: build_line(_source(plan, on_line), True, on_line),
        _MINUTES,
    )


def _source(plan: Any, on_line: Callable[[str], None] | None) -> SimulatorSources:
    from matloom_rtl.board.plan import BOARD_TOP
    from matloom_rtl.fpga.netlist import map_verilog

    say = on_line or (lambda _line: None)
    step = round(1e12 / plan.link.baud / plan.link.divisor * (1 - _FAST))
    return SimulatorSources(
        top=BOARD_TOP,
        verilog=map_verilog(plan.verilog, BOARD_TOP, say, plan.soft_columns),
        label=f"board-netlist-{plan.name}-{plan.config.digest:08x}",
        harness=_HARNESS,
        defines=(f"MATLOOM_STEP_PS={step}", f"MATLOOM_INPUT_HZ={plan.board.input_hz}"),
        # Cells are too small to be separate modules; the PLL's model has delays.
        options=("--timing", "--flatten"),
        initialised=True,
    )


class NetlistBoard(LineSimulation):
    """The netlist of a board's bitstream; it runs until `close`.

    It is the netlist that goes to placement, with models of its cells and of the PLL, from the
    oscillator to the serial line at the board's own baud rate. The far end of the line runs
    slightly fast, with its own clock. The first build takes minutes, and each byte on the line a
    few hundredths of a second.

    Members
    -------
    cycles:
        Cycles of the oscillator.

    Parameters
    ----------
    name:
        A board with an ECP5 and block RAM, or its file.
    on_line:
        Called with each line that the tools print.
    config:
        Another engine than the board's, as for `load_config`.

    Raises
    ------
    ValueError
        The board is unknown, has another FPGA, or has an SDRAM, whose pin cells have no model here.
    matloom_rtl.fpga.progress.FlowError
        Yosys is absent, which the extra ``fpga`` brings, or fails.
    """

    def __init__(
        self,
        name: str,
        on_line: Callable[[str], None] | None = None,
        config: str | None = None,
    ) -> None:
        from matloom_rtl.board.definition import load_board
        from matloom_rtl.board.plan import make_plan
        from matloom_rtl.fpga.devices import DEVICES
        from matloom_rtl.fpga.netlist import FAMILY

        board = load_board(name)
        if DEVICES[board.device].family != FAMILY or board.memory.kind != "block":
            raise ValueError(
                f"only netlists of boards with an ECP5 and block RAM can be simulated, and "
                f"{board.name} has {board.device} and {board.memory.kind}"
            )
        plan = make_plan(board, config)
        super().__init__(_build(plan, on_line), divisor=plan.link.divisor, named_baud=_NAMED_BAUD)
