"""Follows the output of Yosys and nextpnr: reports phases and rounds of routing, and their end."""

import re
from collections.abc import Callable

from matloom.errors import HintedError

__all__ = ["FlowError", "Progress", "UnroutedError", "rounds_of"]

#: Phase that begins with a line that matches the pattern.
_PHASES = {
    re.compile(r"Executing SYNTH_\w+ pass"): "synthesis",
    re.compile(r"Executing MEMORY_LIBMAP pass"): "synthesis: memories",
    re.compile(r"Executing ABC9? pass"): "synthesis: tables",
    re.compile(r"Info: (Pack IOBs|Packing IOs)"): "packing",
    re.compile(r"Info: (Running Static placer|Creating initial \w+ placement)"): "placement",
    re.compile(r"Info: Strict legalising"): "placement: sites",
    re.compile(r"Info: Running simulated annealing placer"): "placement: refinement",
    re.compile(r"Info: (Routing globals|Running router)"): "routing",
}

#: A round of nextpnr's `router2`: the wires that nets still share after it, and the connections
#: that miss the clock, if it reroutes those.
_ROUTING_ROUND = re.compile(r"iter=(\d+) wires=\d+ overused=(\d+)(?:.* tmgfail=(\d+))?")

#: Number of rounds without a new minimum of shared wires and late connections after which routing
#: is abandoned. Routings that finished, in 20 to 250 rounds, reached a new minimum at least every
#: 90.
_MAX_STALLS = 100

#: Rounds between two progress messages.
_ROUNDS_PER_MESSAGE = 10


class FlowError(HintedError, RuntimeError):
    """A tool of the flow is missing or fails, or its input or output is not supported."""

    hint = "please report it with the configuration, and with the logs of the tools"


class UnroutedError(FlowError):
    """Routing does not finish; `late` says that a slower clock may help."""

    def __init__(self, message: str, *, late: bool):
        slower = ", or a slower clock (--freq)" if late else ""
        super().__init__(message, hint=f"try another seed (--seed){slower}")
        self.late = late


class Progress:
    """Reads the output of a tool, and calls `say` for each new phase and every tenth round."""

    def __init__(self, say: Callable[[str], None]):
        self._say = say
        self._phase = ""
        #: Least sum of shared wires and late connections so far, and the round that had it.
        self._fewest, self._best_round = float("inf"), 0

    def read(self, line: str) -> None:
        """Process a line; raise `UnroutedError` if routing has made no progress for many rounds."""
        phase = next((name for found, name in _PHASES.items() if found.search(line)), self._phase)
        if phase != self._phase:
            self._phase = phase
            self._say(phase)
        found = _ROUTING_ROUND.search(line)
        if not found:
            return
        rounds, shared, late = (int(each or 0) for each in found.groups())
        what = f"{shared} shared wires" + (f" and {late} late connections" if late else "")
        if rounds % _ROUNDS_PER_MESSAGE == 0:
            self._say(f"routing, round {rounds}: {what}")
        if shared + late < self._fewest:
            self._fewest, self._best_round = shared + late, rounds
        elif rounds >= self._best_round + _MAX_STALLS:
            raise UnroutedError(
                f"routing was given up: {_MAX_STALLS} rounds without progress, {what} left, "
                f"{self._fewest} of both at best",
                late=late > shared,
            )


def rounds_of(log: str) -> list[tuple[int, int]]:
    """Return, for each routing round, the number of shared wires and that of late connections."""
    return [(int(shared), int(late or 0)) for _number, shared, late in _ROUTING_ROUND.findall(log)]
