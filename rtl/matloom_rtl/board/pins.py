"""Pins of a board's top module, and their constraints in each family's format."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matloom.errors import MissingPackageError
from matloom_rtl.board.definition import Board, BoardError
from matloom_rtl.board.sdram import port_widths

__all__ = ["Place", "constraints", "port_sites"]


@dataclass(frozen=True, kw_only=True)
class Place:
    """A pin of the device, and the attributes of its buffer."""

    site: str
    attributes: dict[str, str]


def port_sites(board: Board) -> dict[str, Place]:
    """Return the location of each port of the top module.

    Raises
    ------
    BoardError
        amaranth-boards is not installed, or has no such class, resource or signal.
    """
    found = {
        port: _named_place(board, place) if isinstance(place, str) else _place_of(place)
        for port, place in board.pins.items()
    }
    return found | (_sdram(board) if board.memory.kind == "sdram" else {})


def _sdram(board: Board) -> dict[str, Place]:
    """Return the locations of the SDRAM's pins."""
    found = {}
    for name in board.memory.wired:
        sites, _ = _sdram_signal(board, name)
        if sites:
            raise BoardError(
                f"memory.wired of {board.name} must be signals without pins, not {name!r}, which "
                f"has {', '.join(sites)}"
            )
    for name, width in port_widths(board.memory.part, board.memory.wired).items():
        sites, attributes = _sdram_signal(board, name)
        if len(sites) != width:
            source = board.definition or "its file"
            raise BoardError(
                f"memory.pins of {board.name} must be an SDRAM of {source} with {width} "
                f"pins {name}, not {board.memory.pins!r}, which has {len(sites)}"
            )
        for bit, site in enumerate(sites):
            port = f"sdram_{name}[{bit}]" if width > 1 else f"sdram_{name}"
            found[port] = Place(site=site, attributes=attributes)
    return found


def _sdram_signal(board: Board, name: str) -> tuple[list[str], dict[str, str]]:
    """Return the pin sites and attributes of an SDRAM signal; no sites if it has none."""
    pins = board.memory.pins
    if isinstance(pins, str):
        return _signal(board, f"{pins}.{name}")
    attributes = {key: str(value) for key, value in pins.get("attributes", {}).items()}
    return pins.get(name, []), attributes


def _place_of(place: dict[str, Any]) -> Place:
    """Return the pin of a board file's entry: its `site`, and other items as buffer attributes."""
    attributes = {name: str(value) for name, value in place.items() if name != "site"}
    return Place(site=place["site"], attributes=attributes)


def _definition(board: Board) -> Any:
    """Return the class of a board in amaranth-boards."""
    module, _, name = board.definition.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != "amaranth_boards":
            raise BoardError(f"definition of {board.name} must exist: {error}") from None
        raise MissingPackageError("amaranth-boards", f"the board {board.name}") from None
    except AttributeError as error:
        raise BoardError(f"definition of {board.name} must exist: {error}") from None


def _signal(board: Board, name: str) -> tuple[list[str], dict[str, str]]:
    """Return the pin sites and attributes of a resource, ``name``, or signal, ``name.signal``.

    There are no sites if the board's definition has no such resource or signal.
    """
    resource_name, _, signal_name = name.partition(".")
    found = [
        item
        for item in _definition(board).resources
        if item.name == resource_name and item.number == 0
    ]
    parts = [part for item in found for part in item.ios]
    attributes = {key: value for item in found for key, value in item.attrs.items()}
    if signal_name:
        signals = [part for part in parts if getattr(part, "name", None) == signal_name]
        attributes |= {key: value for part in signals for key, value in part.attrs.items()}
        parts = [part for item in signals for part in item.ios]
    sites = [site for part in parts for site in getattr(part, "names", ())]
    return sites, {key: str(value) for key, value in attributes.items()}


def _named_place(board: Board, name: str) -> Place:
    """Return the pin of a resource of amaranth-boards, which must have exactly one device pin."""
    sites, attributes = _signal(board, name)
    if len(sites) != 1 or ":" in sites[0]:
        raise BoardError(
            f"pins of {board.name} must be resources of {board.definition} with one pin of the "
            f"device, not {name!r}, which has {len(sites)}"
        )
    return Place(site=sites[0], attributes=attributes)


def constraints(board: Board, family: str, margin: float = 1.0) -> str:
    """Return a family's constraint file: all pins, and the oscillator's frequency.

    The frequency is multiplied by `margin`, and the tools derive the PLL's clocks from it. Gowin's
    file has no frequency.
    """
    lines = []
    for port, place in port_sites(board).items():
        told = " ".join(f"{key}={value}" for key, value in place.attributes.items())
        lines += _LINES[family](port, place.site, told)
    lines += _CLOCKS[family](margin * board.input_hz / 1e6)
    return "\n".join(lines) + "\n"


def _ecp5(port: str, site: str, attributes: str) -> list[str]:
    """Return nextpnr-ecp5's constraint lines (LPF) for a port."""
    return [f'LOCATE COMP "{port}" SITE "{site}";', f'IOBUF PORT "{port}" {attributes};']


def _gowin(port: str, site: str, attributes: str) -> list[str]:
    """Return the Gowin constraint lines (CST) for a port."""
    return [
        f'IO_LOC "{port}" {site};',
        *([f'IO_PORT "{port}" {attributes};'] if attributes else []),
    ]


def _xilinx(port: str, site: str, attributes: str) -> list[str]:
    """Return Vivado's constraint line (XDC) for a port; `attributes` has items ``NAME=value``."""
    properties = " ".join(f"{pair.replace('=', ' ')}" for pair in attributes.split())
    return [f"set_property -dict {{PACKAGE_PIN {site} {properties}}} [get_ports {{{port}}}]"]


_LINES = {"ecp5": _ecp5, "gowin": _gowin, "xilinx": _xilinx}

#: Further constraints, given the oscillator's frequency in MHz. nextpnr takes no clock constraint
#: for Gowin. Xilinx devices need the voltage of the configuration pins, 3.3 V on these boards.
_CLOCKS: dict[str, Callable[[float], list[str]]] = {
    "ecp5": lambda mhz: [f'FREQUENCY PORT "clk" {mhz:g} MHZ;'],
    "gowin": lambda mhz: [],
    "xilinx": lambda mhz: [
        f"create_clock -name clk -period {1000 / mhz:.3f} [get_ports {{clk}}]",
        "set_property CFGBVS VCCO [current_design]",
        "set_property CONFIG_VOLTAGE 3.3 [current_design]",
    ],
}
