"""Conversion of hardware to text: Verilog for tools, RTLIL for proofs."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from amaranth import UnusedElaboratable
from amaranth.back import rtlil, verilog
from amaranth.hdl import Fragment, Value
from amaranth.hdl._ir import PortDirection
from amaranth.lib.wiring import Component, In

from matloom.arch.garbage import gc_paused
from matloom_rtl.reserved import rename_reserved
from matloom_rtl.tool_cache import writable_tool_cache

__all__ = ["to_rtlil", "to_verilog", "units_of"]

#: Declarations of zero-width signals, which Verilog does not have: nothing refers to them.
_WITHOUT_BITS = re.compile(r"^ +(?:wire|reg) \[-1:0\] .*;\n", re.MULTILINE)


def to_verilog(hardware: Component, name: str) -> tuple[str, dict[str, type]]:
    """Return a component's Verilog, and the class of each module in it, by the module's name.

    `name` is the name of the top module. Signals and modules whose names are keywords are renamed.
    The Verilog does not refer to lines of source.
    """
    with gc_paused(), writable_tool_cache(), _quiet_after_exception():
        fragment = Fragment.get(hardware, None)
        rename_reserved(fragment)
        text = verilog.convert(
            fragment, name=name, ports=_ports(hardware), emit_src=False, strip_internal_attrs=True
        )
        return _WITHOUT_BITS.sub("", text), dict(units_of(fragment, name))


@contextmanager
def _quiet_after_exception() -> Iterator[None]:
    """Context that silences Amaranth's warnings of unused components after an exception."""
    try:
        yield
    except BaseException:
        warnings.simplefilter("ignore", UnusedElaboratable)
        raise


def _ports(hardware: Component) -> dict[str, tuple]:
    """Return the ports of a component by name, in Amaranth's form for fragments."""
    found = {}
    for path, member, value in hardware.signature.flatten(hardware):
        direction = PortDirection.Input if member.flow is In else PortDirection.Output
        found["__".join(map(str, path))] = (Value.cast(value), direction)
    return found


def units_of(fragment: Fragment, name: str):
    """Yield the module name and the class of each component of an elaborated design, top down."""
    found = [type(each) for each in fragment.origins or () if isinstance(each, Component)]
    if found:
        yield name, found[0]
    for number, (child, child_name, _place) in enumerate(fragment.subfragments):
        yield from units_of(child, f"{name}.{child_name or f'U${number}'}")


def to_rtlil(hardware: Any, name: str, ports: Any = None) -> str:
    """Return a component or fragment in Yosys' RTLIL, without references to lines of source.

    `ports` are the ports of a fragment; a component has its own.
    """
    with gc_paused(), _quiet_after_exception():
        return rtlil.convert(hardware, name=name, ports=ports, emit_src=False)
