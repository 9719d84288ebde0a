"""Pauses the cyclic garbage collector while networks are compiled and chips are elaborated."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause cyclic garbage collection within a `with` block; restore the previous state afterwards.

    A large network has a million live objects, which the collector scans again and again; for a
    chip in Amaranth, it takes a third of the time. Compilation creates hardly any cycles, so
    reference counting frees almost everything at once.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
