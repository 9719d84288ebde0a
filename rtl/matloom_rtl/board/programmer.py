"""Writes a bitstream to a board with openFPGALoader."""

import shutil
from pathlib import Path

from matloom_rtl.board.definition import Board, BoardError
from matloom_rtl.fpga.vivado import BOARD_DEVICES

__all__ = ["programmer_command"]

_HOW = (
    "on Debian or Ubuntu: apt install openfpgaloader, on macOS: brew install openfpgaloader, "
    "elsewhere: https://trabucayre.github.io/openFPGALoader/guide/install.html"
)


def programmer_command(board: Board, bitstream: Path, flash: bool = False) -> list[str]:
    """Return the command that loads a bitstream into a board until power-off, or into its flash.

    Raises
    ------
    BoardError
        The file does not exist or is for another family, the board file names no programmer, or
        openFPGALoader is not installed.
    """
    suffix = BOARD_DEVICES[board.device].bitstream_suffix
    if not bitstream.is_file():
        raise BoardError(
            f"cannot read {bitstream}: no such file", hint=f"matloom build {board.name} makes one"
        )
    if bitstream.suffix != suffix:
        raise BoardError(
            f"a bitstream for {board.name} must end in {suffix}, not {bitstream.suffix!r}",
            hint=f"matloom build {board.name} makes one",
        )
    if not board.programmer:
        raise BoardError(
            f"{board.name} has no programmer of its own",
            hint=f"with a JTAG adapter: openFPGALoader --cable YOURS {bitstream}",
        )
    loader = shutil.which("openFPGALoader")
    if not loader:
        raise BoardError("openFPGALoader is not installed, which writes bitstreams", hint=_HOW)
    return [loader, *board.programmer, *(["--write-flash"] if flash else []), str(bitstream)]
