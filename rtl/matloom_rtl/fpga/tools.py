"""Finds and runs the tools of the flow, and follows what they print."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

__all__ = ["FlowError", "program", "run"]

#: A round of nextpnr's `router2`, and the wires that nets still share after it.
_ROUND = re.compile(r"iter=(\d+) wires=\d+ overused=(\d+)")

#: Rounds after which a routing will not come to an end: those that did took 20 to 140.
_MOST_ROUNDS = 250

#: Every so many rounds are told.
_TOLD_ROUNDS = 10


class FlowError(RuntimeError):
    """A tool of the flow is missing or failed; the message carries its error."""


def program(name: str) -> str:
    """Return the path of a tool, that of this environment first."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        raise FlowError(f"{name} must be installed: pip install 'matloom[fpga]'")
    return found


def run(command: list[str], folder: Path, log_name: str, say: Callable[[str], None]) -> str:
    """Run a tool in a folder, which also takes its log; return what it printed.

    Names of files are relative: the tools are WebAssembly and do not see all of the machine.

    Raises
    ------
    FlowError
        The tool fails, or routes without coming to an end.
    """
    name, log = Path(command[0]).name, folder / log_name
    say(f"{name}: see {log}")
    printed = []
    with (
        log.open("w") as stream,
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
        try:
            for line in process.stdout:
                stream.write(line)
                printed.append(line)
                _follow_routing(line, say)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        lines = [line.strip() for line in printed if line.strip()] or ["it printed nothing"]
        errors = [line for line in lines if "ERROR" in line]
        raise FlowError(
            f"{name} failed with status {process.returncode}: {[*errors, lines[-1]][0]}"
        )
    return "".join(printed)


def _follow_routing(line: str, say: Callable[[str], None]) -> None:
    found = _ROUND.search(line)
    if not found:
        return
    rounds, shared = map(int, found.groups())
    if rounds % _TOLD_ROUNDS == 0:
        say(f"routing, round {rounds}: nets share {shared} wires")
    if rounds >= _MOST_ROUNDS and shared:
        raise FlowError(
            f"routing must end within {_MOST_ROUNDS} rounds, and nets still share {shared} wires: "
            f"another seed places them elsewhere"
        )
