"""Simulations of chips with a serial line, connected to a pseudo-terminal."""

import atexit
import ctypes
import hashlib
import json
import os
import threading
import tty
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from matloom.device.errors import DeviceClosedError
from matloom.terminal.progress import progress
from matloom.toolchain import power_up, simulated
from matloom.toolchain.cache import entry
from matloom.toolchain.find_verilator import find_verilator
from matloom.toolchain.verilator import build_arguments, compile_library

#: Folder of the C++ sources of the simulations.
HARNESS = Path(__file__).with_name("harness")

#: Cycles per bit of a simulated line, the fewest that the link supports.
DIVISOR = 2

_LIBRARY = "liblinked.so"

#: Baud rate reported to hosts, low enough that their timeouts suit any simulation.
_NAMED_BAUD = 115_200


@dataclass(frozen=True, kw_only=True)
class SimulatorSources:
    """Sources and options from which a simulator is built.

    Members
    -------
    top, verilog:
        Name of the top module, and the generated Verilog.
    label:
        Prefix of the folder name in the cache.
    harness:
        The C++ file; it may include files of its folder and of `linked`.
    models:
        Verilog models of cells that the generated text only instantiates.
    defines:
        Macros for C++.
    options:
        Options for Verilator.
    initialised:
        Whether registers start with the values in the Verilog. If not, the text is edited so that
        they start with arbitrary values.
    """

    top: str
    verilog: str
    label: str
    harness: Path
    models: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    initialised: bool = False


def build(source: SimulatorSources, optimise: bool, on_line: Callable[[str], None] | None) -> Path:
    """Return the path of the simulator library of these sources, cached or newly built.

    `optimise` compiles the library for speed; `on_line` is called with each line that the tools
    print.
    """
    text = source.verilog
    if not source.initialised:
        text = power_up.without_initial_values(simulated.for_simulation(text))
    folders = dict.fromkeys((HARNESS / "linked", source.harness.parent))
    flags = [*source.options]
    flags += [word for define in source.defines for word in ("-CFLAGS", f"-D{define}")]
    paths = [word for folder in folders for word in ("-CFLAGS", f"-I{folder}")]
    speed = [] if optimise else ["-MAKEFLAGS", "OPT_FAST=-O0"]
    key = hashlib.sha256(text.encode())
    files = [path.read_text() for folder in folders for path in sorted(folder.iterdir())]
    files.append((HARNESS / "sdram.h").read_text())
    files += [path.read_text() for path in source.models if HARNESS not in path.parents]
    arguments = json.dumps([*build_arguments(source.top), *flags, *speed])
    for part in (*files, find_verilator().version, arguments):
        key.update(part.encode() + b"\0")

    def make(folder: Path) -> None:
        """Write the Verilog to a folder and compile the library there."""
        verilog = folder / f"{source.top}.v"
        verilog.write_text(text)
        with progress(f"building the simulator {source.label} (minutes, once)", after=0):
            compile_library(
                [verilog, *source.models],
                source.top,
                [source.harness],
                folder / _LIBRARY,
                flags=[*flags, *paths, *speed],
                on_line=on_line,
            )

    return entry(f"simulators/{source.label}-{key.hexdigest()[:16]}", make) / _LIBRARY


def load(path: Path) -> ctypes.CDLL:
    """Load a simulator library, and declare the types of the functions that all libraries have."""
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


class LineSimulation:
    """A simulated chip with a serial line; it runs until `close`.

    Members
    -------
    device:
        Device name for `matloom.load` and ``matloom run --device``.

    Parameters
    ----------
    library:
        Path returned by `build`.
    memory_base, memory_bytes:
        Bus address and size of a plain external memory; 0 bytes for none.
    sdram:
        Parameters of an SDRAM model instead, as `SdramShape` of the harness.
    divisor:
        Cycles per bit.
    named_baud:
        Baud rate reported to hosts, which sets their timeouts.
    """

    def __init__(
        self,
        library: Path,
        memory_base: int = 0,
        memory_bytes: int = 0,
        sdram: ctypes.Structure | None = None,
        divisor: int = DIVISOR,
        named_baud: int = _NAMED_BAUD,
    ) -> None:
        self._library = load(library)
        self._memory = np.zeros(memory_bytes, np.uint8)
        memory = ctypes.addressof(sdram) if sdram else self._memory.ctypes.data
        self._simulation = self._library.linked_create(
            memory if sdram or memory_bytes else None, memory_base, memory_bytes, divisor
        )
        self._far, self._near = os.openpty()
        tty.setraw(self._near)
        os.set_blocking(self._far, False)
        self.device = f"uart:{os.ttyname(self._near)}@{named_baud}"
        self._stop, self._closing = ctypes.c_int(0), threading.Lock()
        self._cycles = 0
        self._server = threading.Thread(target=self._serve, daemon=True)
        self._server.start()
        # The thread must have left the library before the interpreter unloads it.
        atexit.register(self.close)

    def _serve(self) -> None:
        """Run the simulation until it is stopped; a thread does this."""
        self._library.linked_serve(self._simulation, self._far, ctypes.byref(self._stop))

    @property
    def _handle(self) -> int:
        """Handle of the simulation, valid until `close`."""
        if self._simulation is None:
            raise DeviceClosedError("the simulation was closed")
        return int(self._simulation)

    @property
    def cycles(self) -> int:
        """Cycles simulated so far; after `close`, the final count."""
        with self._closing:
            if self._simulation is not None:
                self._cycles = int(self._library.linked_cycles(self._simulation))
            return self._cycles

    def close(self) -> None:
        """End the simulation; a second call does nothing."""
        atexit.unregister(self.close)
        self._stop.value = 1
        self._server.join()
        self._cycles = self.cycles
        with self._closing:
            simulation, self._simulation = self._simulation, None
            if simulation is None:
                return
            self._library.linked_destroy(simulation)
            self._hang_up()
            os.close(self._near)

    def _hang_up(self) -> None:
        """Close the simulation's end of the line, so that the host notices at once."""
        if self._far >= 0:
            os.close(self._far)
        self._far = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
