"""Waveforms of a simulation: the file, its format, and which cycles are written."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from matloom.errors import UserError
from matloom.toolchain.process import ToolError, run

__all__ = ["FORMATS", "Waves"]

#: Formats by the suffix of the file, as GTKWave and Surfer read them.
FORMATS = ("vcd", "fst")

#: What Verilator's writer of FST includes, and the packages of Debian that have it.
_HEADERS, _PACKAGES = ("lz4.h", "zlib.h"), "liblz4-dev zlib1g-dev"


@dataclass(frozen=True, kw_only=True)
class Waves:
    """Waveforms that a simulation writes.

    A VCD of a whole network takes gigabytes: an FST has about a twentieth of its size, and a
    window of some thousand cycles opens at once.

    Members
    -------
    path:
        The file: ``.fst`` for FST, VCD otherwise.
    first:
        The cycle of the simulation with which it begins.
    cycles:
        How many there are, at most; all where None.
    """

    path: Path
    first: int = 0
    cycles: int | None = None

    @classmethod
    def of(cls, given: "Waves | str | os.PathLike[str]") -> "Waves":
        """Return what a path, or waves, stand for."""
        return given if isinstance(given, Waves) else cls(path=Path(given))

    @property
    def format(self) -> str:
        """Return one of `FORMATS`."""
        return "fst" if self.path.suffix.lower() == ".fst" else "vcd"

    @property
    def end(self) -> int:
        """Return the first cycle after the window."""
        return (1 << 64) - 1 if self.cycles is None else self.first + self.cycles

    def require(self) -> None:
        """Raise where they cannot be written: before a simulator is built, not after it ran.

        Errors
        ------
        UserError
            A path where no file can be written, a window without cycles, or a format for which
            headers are missing.
        """
        if self.first < 0 or (self.cycles is not None and self.cycles < 1):
            raise UserError(
                "waves must begin at cycle 0 or later and have at least one, not "
                f"{self.cycles} from {self.first}"
            )
        folder = self.path.absolute().parent
        written = self.path if self.path.exists() else folder
        if not folder.is_dir():
            raise UserError(
                f"waves cannot be written: there is no folder {str(folder)!r}", hint="make it first"
            )
        if self.path.is_dir() or not os.access(written, os.W_OK):
            raise UserError(f"waves cannot be written to {str(self.path)!r}")
        if self.format == "fst":
            _require_headers()


def _require_headers() -> None:
    """Raise where Verilator's writer of FST cannot be compiled."""
    if shutil.which("g++") is None:
        return
    includes = [word for header in _HEADERS for word in ("-include", header)]
    try:
        run(["g++", "-x", "c++", "-fsyntax-only", *includes, os.devnull])
    except ToolError as error:
        raise UserError(
            f"waves in FST need the headers {' and '.join(_HEADERS)}, which g++ does not find",
            hint=f"on Debian or Ubuntu: apt install {_PACKAGES}; or name a .vcd, which needs none",
        ) from error
