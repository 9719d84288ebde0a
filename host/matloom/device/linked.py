"""The generated chip with its host link in Verilator, its line on a pseudo-terminal."""

import ctypes
import hashlib
import json
import os
import threading
import tty
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from matloom.arch.config import Config
from matloom.toolchain import power_up, simulated
from matloom.toolchain.cache import cache_folder, exclusive
from matloom.toolchain.verilator import build_arguments, build_library, find_verilator

__all__ = ["LinkedChip"]

_HARNESS = Path(__file__).with_name("harness") / "linked"

#: Bus address at which the external memory of the simulation begins.
_MEMORY_BASE = 0x8000_0000

#: As fast as a simulation is, more or less, so that times that the host expects are real ones.
_CLOCK_HZ = 1_000_000

#: The shortest bits of the line that the link takes: a simulation has better to do.
_DIVISOR = 2

#: Named to hosts: slow enough that they wait for a simulation of any size.
_NAMED_BAUD = 115_200


def _build(
    config: Config, memory_bytes: int, optimise: bool, on_line: Callable[[str], None] | None
) -> Path:
    """Return the simulator library of a configuration, from the cache or built now."""
    from matloom_rtl.generate import LINKED_NAME, generate_linked
    from matloom_rtl.link.settings import LinkSettings

    settings = LinkSettings(
        clock_hz=_CLOCK_HZ,
        baud=_CLOCK_HZ // _DIVISOR,
        board="simulation",
        memory_base=_MEMORY_BASE,
        memory_bytes=memory_bytes,
    )
    text = generate_linked(config, settings).verilog
    text = power_up.without_initial_values(simulated.simulated(text))
    flags = ["-CFLAGS", f"-DMATLOOM_BUS_BYTES={config.bus_bytes}", "-CFLAGS", f"-I{_HARNESS}"]
    if not optimise:
        flags += ["-MAKEFLAGS", "OPT_FAST=-O0"]
    key = hashlib.sha256(text.encode())
    harness = [path.read_text() for path in sorted(_HARNESS.iterdir())]
    arguments = json.dumps([*build_arguments(LINKED_NAME), *flags[:2], *flags[4:]])
    for part in (*harness, find_verilator().version, arguments):
        key.update(part.encode() + b"\0")
    folder = cache_folder() / "simulators" / f"linked-{config.digest:08x}-{key.hexdigest()[:16]}"
    library, source = folder / "liblinked.so", folder / f"{LINKED_NAME}.v"
    with exclusive(source):
        if not library.exists():
            source.write_text(text)
            build_library(
                [source],
                LINKED_NAME,
                [_HARNESS / "linked.cpp"],
                library,
                flags=flags,
                on_line=on_line,
            )
    return library


def _load(path: Path) -> Any:
    library = ctypes.CDLL(str(path))
    handle, size, word = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32
    for name, result, arguments in (
        ("create", handle, [handle, size, size, word]),
        ("destroy", None, [handle]),
        ("serve", None, [handle, ctypes.c_int, handle]),
        ("cycles", size, [handle]),
    ):
        function = getattr(library, f"linked_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class LinkedChip:
    """A simulated board: engine, host link and memory; it runs until `close`.

    Members
    -------
    device:
        What `matloom.load` and ``matloom run --device`` take.

    Parameters
    ----------
    config:
        The engine.
    memory_bytes:
        External memory.
    optimise:
        Whether the simulator is compiled for speed: worth its time from some million cycles on.
    on_line:
        Called with each line of the tools while the simulator is built.
    """

    def __init__(
        self,
        config: Config,
        memory_bytes: int = 1 << 24,
        optimise: bool = True,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        self._library = _load(_build(config, memory_bytes, optimise, on_line))
        self._memory = np.zeros(memory_bytes, np.uint8)
        self._simulation = self._library.linked_create(
            self._memory.ctypes.data, _MEMORY_BASE, memory_bytes, _DIVISOR
        )
        self._far, self._near = os.openpty()
        tty.setraw(self._near)
        os.set_blocking(self._far, False)
        self.device = f"uart:{os.ttyname(self._near)}@{_NAMED_BAUD}"
        self._stop = ctypes.c_int(0)
        self._server = threading.Thread(target=self._serve, daemon=True)
        self._server.start()

    def _serve(self) -> None:
        self._library.linked_serve(self._simulation, self._far, ctypes.byref(self._stop))

    @property
    def cycles(self) -> int:
        """Cycles simulated so far."""
        return int(self._library.linked_cycles(self._simulation))

    def close(self) -> None:
        """End the simulation; a second time does nothing."""
        if not self._stop.value:
            self._stop.value = 1
            self._server.join()
            self._library.linked_destroy(self._simulation)
            os.close(self._far)
            os.close(self._near)

    def __enter__(self) -> "LinkedChip":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
