"""No search for cycles of garbage while networks are compiled and verified, and chips described."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["gc_paused"]


@contextmanager
def gc_paused() -> Iterator[None]:
    """Leave garbage to the counts of references; afterwards all is as it was.

    A large network has a million of live objects, over which the collector goes again and again;
    a chip that Amaranth describes has more, and there it takes a third of the time. Compilation
    makes next to no cycles, so that what it drops is freed at once without it.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
