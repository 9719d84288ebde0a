"""Waveforms of a simulation: the file, its format, and the cycles to record."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from matloom.errors import UserError
from matloom.toolchain.process import ToolError, run

#: Formats of waveform files, which are also their suffixes; GTKWave and Surfer read both.
FORMATS = ("vcd", "fst")

#: Headers that Verilator's FST writer includes, and the Debian packages that contain them.
_HEADERS, _PACKAGES = ("lz4.h", "zlib.h"), "liblz4-dev zlib1g-dev"


@dataclass(frozen=True, kw_only=True)
class Waves:
    """Waveforms that a simulation is to write.

    Members
    -------
    path:
        The file: ``.fst`` for FST, VCD otherwise.
    first:
        First cycle to record.
    cycles:
        Maximum number of cycles to record; None for all.
    """

    path: Path
    first: int = 0
    cycles: int | None = None

    @classmethod
    def of(cls, waves: "Waves | str | os.PathLike[str]") -> "Waves":
        """Return waves of all cycles for a path; a Waves is returned unchanged."""
        return waves if isinstance(waves, Waves) else cls(path=Path(waves))

    @property
    def format(self) -> str:
        """Format of the file, one of `FORMATS`."""
        return "fst" if self.path.suffix.lower() == ".fst" else "vcd"

    @property
    def end(self) -> int:
        """First cycle after those to record."""
        return (1 << 64) - 1 if self.cycles is None else self.first + self.cycles

    def require(self) -> None:
        """Raise an error if waves cannot be written, before a simulator is built for them.

        Raises
        ------
        UserError
            No file can be written at the path, the window has no cycles, or headers for the format
            are missing.
        """
        if self.first < 0 or (self.cycles is not None and self.cycles < 1):
            raise UserError(
                "waves must begin at cycle 0 or later and have at least one, not "
                f"{self.cycles} from {self.first}",
                hint="leave both out for all cycles",
            )
        folder = self.path.absolute().parent
        written = self.path if self.path.exists() else folder
        if not folder.is_dir():
            raise UserError(
                f"waves cannot be written: there is no folder {str(folder)!r}", hint="make it first"
            )
        if self.path.is_dir() or not os.access(written, os.W_OK):
            raise UserError(
                f"waves cannot be written to {str(self.path)!r}", hint="name a file elsewhere"
            )
        if self.format == "fst":
            _require_headers()


def _require_headers() -> None:
    """Raise UserError if g++ lacks the headers of Verilator's FST writer."""
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
