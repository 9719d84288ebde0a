"""Claims, which are modules with assertions, and proofs, which say how to prove a claim."""

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.hdl import Fragment, Module

from matloom_rtl.convert import to_rtlil

__all__ = ["Claim", "Proof"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A module with assertions to prove and covers to reach.

    `ports` are the inputs of the module, which have arbitrary values in every cycle. A clock and a
    reset are added; the reset is arbitrary too.
    """

    module: Module
    ports: tuple

    def text(self) -> str:
        """Return the claim in Yosys' RTLIL; equal claims give equal text."""
        fragment = Fragment.get(self.module, None)
        # Inputs without bits are left out.
        ports = [port for port in self.ports if len(port)]
        return to_rtlil(fragment, "top", ports)


@dataclass(frozen=True, kw_only=True)
class Proof:
    """One claim about one unit.

    Members
    -------
    kind:
        Kind of claim, such as `bus` or `queues`.
    unit:
        Name of the unit, followed by its parameters.
    statement:
        What is proved, as a sentence without a full stop.
    build:
        Function that builds the claim.
    depth:
        Depth of the induction: if the claim holds for that many cycles, it holds for one more, and
        therefore for runs of any length.
    cover_depth:
        Cycles within which every cover must be reached.
    bounded:
        Whether to check only runs of `depth` cycles from a reset, because the claimed behaviour
        ends within these.
    quick:
        Whether the proof belongs to the quick set (`--quick`).
    """

    kind: str
    unit: str
    statement: str
    build: Callable[[], Claim]
    depth: int = 1
    cover_depth: int = 40
    bounded: bool = False
    quick: bool = True
