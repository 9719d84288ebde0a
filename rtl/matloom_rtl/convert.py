"""Hardware as text: Verilog for tools, RTLIL for proofs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from amaranth.back import rtlil, verilog

__all__ = ["to_rtlil", "to_verilog"]


@contextmanager
def _uncollected() -> Iterator[None]:
    """Look for no garbage: Amaranth makes millions of objects, and all stay until the end.

    Looking through them again and again takes a third of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def to_verilog(hardware: Any, name: str) -> str:
    """Return the Verilog of a component, whose top module has this name, without source lines."""
    with _uncollected():
        return verilog.convert(hardware, name=name, emit_src=False, strip_internal_attrs=True)


def to_rtlil(hardware: Any, name: str, ports: Any = None) -> str:
    """Return a component or fragment in the language of Yosys, without source lines.

    `ports` are a fragment's; a component has its own.
    """
    with _uncollected():
        return rtlil.convert(hardware, name=name, ports=ports, emit_src=False)
