"""External memory of a board, as the compiler models it.

    python -m matloom_rtl.board.external BOARD > memory.json

prints the memory of a board or board file, for `--memory memory.json`.
"""

import sys
from dataclasses import replace

from matloom.arch.config import Config, load_config
from matloom.arch.memory import MEMORIES, Memory
from matloom.arch.sdram import load_sdram
from matloom.arch.sdram_memory import sdram_memory
from matloom_rtl.board.definition import Board, load_board
from matloom_rtl.board.pin_registers import PIN_REGISTERS
from matloom_rtl.board.top import settings_for
from matloom_rtl.fpga.vivado import BOARD_DEVICES

__all__ = ["board_memory"]

#: Cycles that `BusSlice` and `Merge` add to a read and to a write.
_SLICE, _MERGE = (2, 2), (4, 5)


def board_memory(board: Board, config: Config | None = None) -> Memory:
    """Return the model of a board's memory, as seen by the engine that `config` describes.

    The default is the configuration of the board's file.

    Raises
    ------
    ValueError
        The PLL cannot make the clock, or the SDRAM does not allow it.
    """
    engine = config or load_config(board.config)
    units = [
        *([_SLICE] if board.memory.sliced else []),
        *([_MERGE] if "dqm" in board.memory.wired else []),
    ]
    before = sum(read for read, _ in units), sum(write for _, write in units)
    if board.memory.kind == "block":
        plain = MEMORIES["board-block"]
        return replace(
            plain,
            read_latency=plain.read_latency + before[0],
            write_latency=plain.write_latency + before[1],
        )
    pll, _link = settings_for(board)
    return sdram_memory(
        load_sdram(board.memory.part),
        clock_hz=round(pll.output_hz),
        bus_bits=engine.bus_bits,
        burst_beats=engine.burst_beats,
        pin_cycles=PIN_REGISTERS[BOARD_DEVICES[board.device].family, board.memory.gear].cycles,
        gear=board.memory.gear,
        before=before,
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m matloom_rtl.board.external BOARD")
    try:
        sys.stdout.write(board_memory(load_board(sys.argv[1])).to_json())
    except (OSError, ValueError) as error:
        sys.exit(f"matloom: {error}")
