"""Vivado's names of interfaces, for attributes in the Verilog and for IP-XACT."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from matloom_rtl.interfaces import Interface, Kind

__all__ = ["VivadoInterface", "vivado_interface"]

#: For each kind of interface, library and name of Vivado's bus, and the engine's side of it.
_BUSES = {
    Kind.CLOCK: ("signal", "clock", "slave"),
    Kind.RESET: ("signal", "reset", "slave"),
    Kind.REGISTERS: ("interface", "aximm", "slave"),
    Kind.MEMORY: ("interface", "aximm", "master"),
    Kind.INTERRUPT: ("signal", "interrupt", "master"),
}

#: Vivado's names of signals that are not part of an AXI bus.
_SIGNALS = {Kind.CLOCK: "CLK", Kind.RESET: "RST", Kind.INTERRUPT: "INTERRUPT"}

_PARAMETERS = {
    Kind.RESET: {"POLARITY": "ACTIVE_HIGH"},
    Kind.INTERRUPT: {"SENSITIVITY": "LEVEL_HIGH"},
}


@dataclass(frozen=True, kw_only=True)
class VivadoInterface:
    """Interface as Vivado describes it: `logical` names of ports, and parameters.

    `library` and `bus` name the kind of bus; `role` is ``master`` or ``slave``.
    """

    library: str
    bus: str
    role: str
    logical: dict[str, str]
    parameters: dict[str, str] = field(default_factory=dict)


def vivado_interface(interface: Interface, others: Sequence[Interface]) -> VivadoInterface:
    """Return Vivado's description of an interface.

    `logical` maps the chip's port names to Vivado's. `others` are all interfaces of the chip: a
    clock names the buses and the reset that belong to it.
    """
    library, bus, role = _BUSES[interface.kind]
    parameters = _PARAMETERS.get(interface.kind, {})
    if interface.kind is Kind.CLOCK:
        buses = ":".join(other.name for other in others if other.is_bus)
        resets = [other.name for other in others if other.kind is Kind.RESET]
        parameters = {"ASSOCIATED_BUSIF": buses, "ASSOCIATED_RESET": resets[0]}
    logical = {
        port["name"]: _SIGNALS.get(interface.kind, name.upper())
        for name, port in interface.signals.items()
    }
    return VivadoInterface(
        library=library, bus=bus, role=role, logical=logical, parameters=parameters
    )
