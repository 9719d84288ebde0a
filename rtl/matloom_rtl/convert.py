"""Hardware as text: Verilog for tools, RTLIL for proofs."""

from typing import Any

from amaranth.back import rtlil, verilog

from matloom.arch.garbage import no_cycle_search

__all__ = ["to_rtlil", "to_verilog"]


def to_verilog(hardware: Any, name: str) -> str:
    """Return the Verilog of a component, whose top module has this name, without source lines."""
    with no_cycle_search():
        return verilog.convert(hardware, name=name, emit_src=False, strip_internal_attrs=True)


def to_rtlil(hardware: Any, name: str, ports: Any = None) -> str:
    """Return a component or fragment in the language of Yosys, without source lines.

    `ports` are a fragment's; a component has its own.
    """
    with no_cycle_search():
        return rtlil.convert(hardware, name=name, ports=ports, emit_src=False)
