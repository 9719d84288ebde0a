"""Area available on a board, compared with what an engine is predicted to need."""

from typing import TYPE_CHECKING

from matloom.errors import UserError

if TYPE_CHECKING:
    from matloom.tools.fit import Part

#: Names of resources, by their names in reports.
_NAMES = {"LUT4": "tables", "FF": "flip-flops", "DSP": "multipliers", "BRAM": "block RAMs"}

#: Multiplier blocks per product of bytes on devices where that is not one.
_BLOCKS_PER_CELL = {"gowin": 0.5}


def board_part(name: str, freq: float | None) -> "Part":
    """Return the properties of a board that `matloom fit` uses: capacity, memory, clock.

    `freq` is the clock in MHz; None means that of the board.
    """
    from matloom.tools.fit import Part
    from matloom_rtl.board.definition import load_board
    from matloom_rtl.board.top import settings_for
    from matloom_rtl.fpga.vivado import BOARD_DEVICES

    board = load_board(name)
    device = BOARD_DEVICES[board.device]
    pll, _ = settings_for(board, round(freq * 1e6) if freq else None)
    return Part(
        board=board.name,
        device=device.name,
        family=device.family,
        capacity={shown: device.capacity[key] for key, shown in _NAMES.items()},
        soft_multiplier=device.soft_multiplier,
        blocks_per_cell=_BLOCKS_PER_CELL.get(device.family, 1),
        memory_kind=board.memory.kind,
        memory_bytes=board.memory.bytes,
        memory_masks="dqm" not in board.memory.wired,
        clock_mhz=float(pll.output_hz) / 1e6,
    )


def require_capacity(board: str, text: str, freq: float | None) -> None:
    """Raise `UserError` if an engine is predicted to need more of a resource than a board has.

    `text` is the engine's configuration, as for --config. Predictions of LUTs and flip-flops may
    exceed the device by the model's error; those of multipliers and block RAMs are exact.
    """
    from matloom.tools.fit import EngineSearch

    wanted = EngineSearch(part=board_part(board, freq))
    engine, worst = wanted.candidate(text), wanted.model.worst()
    error = {"tables": worst["COMB"], "flip-flops": worst["FF"]}
    uses = {} if engine is None else engine.uses
    lacks = [
        f"{use.used:,.0f} of {use.available:,} {name}"
        for name, use in uses.items()
        if use.used > use.available * (1 + error.get(name, 0))
    ]
    if lacks:
        raise UserError(
            f"{text} does not fit {board}: it is predicted to need {', '.join(lacks)}",
            hint=f"run: matloom fit {board}; it lists engines that fit, and --force builds others",
        )
