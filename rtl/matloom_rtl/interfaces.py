"""Interfaces of a top module, which are groups of ports."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Interface", "Kind", "interfaces_of"]


class Kind(enum.StrEnum):
    """Kind of an interface; the values appear in the JSON file of a chip."""

    CLOCK = "clock"
    RESET = "reset"
    REGISTERS = "axi4-lite subordinate"
    MEMORY = "axi4 manager"
    INTERRUPT = "interrupt"


#: Name, kind and description of each interface. A bus is named by the prefix of its ports, a single
#: signal by its port.
_INTERFACES = (
    ("clk", Kind.CLOCK, "clock of everything, rising edge"),
    ("rst", Kind.RESET, "reset, synchronous, active high, for two cycles at least"),
    ("s_axil", Kind.REGISTERS, "registers: AXI4-Lite subordinate, 32 bits"),
    ("m_axi", Kind.MEMORY, "external memory: AXI4 manager, INCR bursts"),
    ("irq", Kind.INTERRUPT, "interrupt, level, active high"),
)


@dataclass(frozen=True, kw_only=True)
class Interface:
    """Group of related ports of a top module.

    Members
    -------
    name, kind, doc:
        Name of the interface, such as ``s_axil``, its kind, and a phrase that describes it.
    signals:
        Ports (name, direction, width) by their lower-case name in the standard, such as ``awaddr``.
        The port of a clock, reset or interrupt has the name of the interface.
    """

    name: str
    kind: Kind
    doc: str
    signals: dict[str, dict]

    @property
    def is_bus(self) -> bool:
        """Whether the interface is a bus, not a single signal."""
        return self.kind in (Kind.REGISTERS, Kind.MEMORY)


def interfaces_of(ports: Sequence[dict]) -> list[Interface]:
    """Return the interfaces of `_INTERFACES` that a top's ports form.

    Other ports, such as those of a UART, belong to none.

    `ports` are those of `generate.ports_of`.
    """
    found = []
    for name, kind, doc in _INTERFACES:
        signals = {
            port["name"].removeprefix(f"{name}_"): port
            for port in ports
            if port["name"] == name or port["name"].startswith(f"{name}_")
        }
        if signals:
            found.append(Interface(name=name, kind=kind, doc=doc, signals=signals))
    return found
