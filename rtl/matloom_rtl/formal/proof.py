"""Proofs: a module of assertions, and how it is proven."""

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.hdl import Fragment, Module

from matloom_rtl.convert import to_rtlil

__all__ = ["Claim", "Proof"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A module whose assertions are to be proven, and whose covers are to be reached.

    `ports` are its inputs, free in every cycle. Clock and reset are added; the reset is free, too.
    """

    module: Module
    ports: tuple

    def text(self) -> str:
        """Return the claim in the language of Yosys; the same claim gives the same text."""
        fragment = Fragment.get(self.module, None)
        # A choice of one has no bits.
        ports = [port for port in self.ports if len(port)]
        return to_rtlil(fragment, "top", ports)


@dataclass(frozen=True, kw_only=True)
class Proof:
    """One claim about one unit.

    Members
    -------
    kind:
        What sort of claim it is.
    unit:
        The unit and its parameters.
    statement:
        What is proven, in a sentence without its full stop.
    build:
        Makes the claim.
    depth:
        Cycles of the induction: a state that keeps the claim for so long keeps it for one more. So
        it holds for runs of any length.
    cover_depth:
        Cycles within which every cover must be reached.
    bounded:
        Runs of `depth` cycles from a reset on are all that is looked at: what is claimed has an end
        within these.
    quick:
        Whether it belongs to the quick set.
    """

    kind: str
    unit: str
    statement: str
    build: Callable[[], Claim]
    depth: int = 1
    cover_depth: int = 40
    bounded: bool = False
    quick: bool = True
