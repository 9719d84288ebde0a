"""A board simulated whole, its line on a pseudo-terminal: all of its bitstream but the PLL."""

from collections.abc import Callable

from matloom.device.line_simulation import DIVISOR, HARNESS, LineSimulation, Source, build

__all__ = ["SimulatedBoard"]

_FOLDER = HARNESS / "board"


def _source(name: str, config: str | None) -> Source:
    from matloom.arch.config import load_config
    from matloom_rtl.board.definition import load_board
    from matloom_rtl.board.plan import BOARD_TOP, board_verilog
    from matloom_rtl.board.top import settings_for

    board = load_board(name)
    engine = load_config(config or board.config)
    clock_hz = round(settings_for(board)[0].output_hz)
    pll, link = settings_for(board, baud=clock_hz // DIVISOR)
    return Source(
        top=BOARD_TOP,
        verilog=board_verilog(board, engine, pll, link),
        label=f"board-{board.name}-{engine.digest:08x}",
        harness=_FOLDER / "board.cpp",
        models=(_FOLDER / "pll.v",),
    )


class SimulatedBoard(LineSimulation):
    """A board's top in Verilator; it runs until `close`.

    The PLL passes its input on and locks after some cycles, and the line is as fast as the link
    can: two cycles a bit. All else is the Verilog of the bitstream.

    Parameters
    ----------
    name:
        The board, or its file.
    config:
        Another engine than the board's.
    optimise, on_line:
        As those of `matloom.device.linked.LinkedChip`.

    Errors
    ------
    ValueError
        No such board or configuration.
    """

    def __init__(
        self,
        name: str,
        config: str | None = None,
        optimise: bool = True,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(build(_source(name, config), optimise, on_line))
