"""The system on chip in Verilator: its serial line as a stream, or as a pseudo-terminal."""

import ctypes
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import numpy as np

from matloom.arch.config import Config
from matloom.arch.soc import MEMORY_BASE
from matloom.device.boot import send_image
from matloom.device.errors import DeviceClosedError
from matloom.device.line_simulation import HARNESS, LineSimulation, SimulatorSources, build, load
from matloom.device.link import Link
from matloom.device.link_transport import LinkTransport
from matloom.errors import UserError, unknown_name_error
from matloom.toolchain.soc_firmware import boot_rom, link_server

#: Bytes reserved for an image at the start of external memory (SOC_IMAGE_BYTES of
#: firmware/soc/soc.h).
IMAGE_BYTES = 0x10000

#: Clock frequency that simulated systems report, about the speed of a simulation.
SOC_CLOCK_HZ = 1_000_000

_MEMORY_BYTES = (1 << 24) + IMAGE_BYTES

#: Simulated seconds allowed for the boot loader's checksum.
_CHECKSUM_SECONDS = 5.0

#: Maximum number of bytes read from the simulator at a time.
_CHUNK_BYTES = 4096


def bit_cycles(cpu: str) -> int:
    """Return the cycles per bit of a simulated line, the fewest that the firmware can handle.

    Raises ValueError if there is no such processor.
    """
    from matloom_rtl.soc.cpu import CPUS

    if cpu not in CPUS:
        raise unknown_name_error(
            UserError, "cpu", cpu, CPUS, hint="leave the processor out for default"
        )
    return int(CPUS[cpu].bit_cycles)


def _library(
    config: Config,
    memory_bytes: int,
    optimise: bool = True,
    on_line: Callable[[str], None] | None = None,
    cpu: str = "default",
) -> Any:
    """Return the path of a simulator library, cached or newly built."""
    from matloom_rtl.generate import LINKED_NAME, generate_soc
    from matloom_rtl.link.settings import LinkSettings
    from matloom_rtl.soc.cpu import cpu_source
    from matloom_rtl.soc.settings import SocSettings

    link = LinkSettings(
        clock_hz=SOC_CLOCK_HZ,
        baud=SOC_CLOCK_HZ // bit_cycles(cpu),
        board="simulation",
        memory_base=MEMORY_BASE,
        memory_bytes=memory_bytes,
    )
    settings = SocSettings(link=link, rom=boot_rom(), cpu=cpu)
    source = SimulatorSources(
        top=LINKED_NAME,
        verilog=generate_soc(config, settings).verilog,
        label=f"soc-{config.digest:08x}",
        harness=HARNESS / "linked" / "linked.cpp",
        models=(cpu_source(settings.cpu),),
        defines=(f"MATLOOM_BUS_BYTES={config.bus_bytes}",),
    )
    return build(source, optimise, on_line)


class SocChip:
    """A simulated system on chip, which advances only in `run` and in reads of its stream.

    Members
    -------
    memory:
        External memory, uint8 (`memory_bytes`,).
    stream:
        Serial line of the chip.

    Parameters
    ----------
    config:
        Configuration of the engine.
    memory_bytes:
        Size of the external memory.
    optimise, on_line:
        As in `matloom.device.linked.LinkedChip`.
    cpu:
        One of `matloom_rtl.soc.cpu.CPUS`.

    Raises
    ------
    ValueError
        The processor does not exist, or its package is not installed.
    ToolError
        Its firmware cannot be compiled (`matloom.toolchain.soc_firmware`).
    """

    def __init__(
        self,
        config: Config,
        memory_bytes: int = _MEMORY_BYTES,
        optimise: bool = True,
        on_line: Callable[[str], None] | None = None,
        cpu: str = "default",
    ) -> None:
        self._library = load(_library(config, memory_bytes, optimise, on_line, cpu))
        handle, size = ctypes.c_void_p, ctypes.c_uint64
        for name, result, arguments in (
            ("put", None, [handle, ctypes.c_char_p, size]),
            ("run", None, [handle, size]),
            ("take", size, [handle, handle, size]),
        ):
            function = getattr(self._library, f"linked_{name}")
            function.restype, function.argtypes = result, arguments
        self.memory = np.zeros(memory_bytes, np.uint8)
        self._simulation = self._library.linked_create(
            self.memory.ctypes.data, MEMORY_BASE, memory_bytes, bit_cycles(cpu)
        )
        self.stream = SocStream(self, SOC_CLOCK_HZ // bit_cycles(cpu))

    @property
    def _handle(self) -> int:
        """Handle of the simulation, valid until `close`."""
        if not self._simulation:
            raise DeviceClosedError("the simulated system was closed")
        return int(self._simulation)

    @property
    def cycles(self) -> int:
        """Cycles simulated so far."""
        return int(self._library.linked_cycles(self._handle))

    def load(self, image: bytes) -> None:
        """Send an image to the boot ROM, which then starts it; raise the errors of `send_image`."""
        send_image(self.stream, image, _CHECKSUM_SECONDS)

    def send(self, data: bytes) -> None:
        """Queue bytes for the chip; they are sent while it runs."""
        self._library.linked_put(self._handle, data, len(data))

    def run(self, cycles: int) -> None:
        """Simulate until a byte comes from the chip, but at most `cycles` cycles."""
        self._library.linked_run(self._handle, cycles)

    def receive(self) -> bytes:
        """Return, without waiting, up to 4096 bytes that came from the chip."""
        data = ctypes.create_string_buffer(_CHUNK_BYTES)
        count = self._library.linked_take(self._handle, data, _CHUNK_BYTES)
        return data.raw[:count]

    def close(self) -> None:
        """End the simulation; a second call does nothing."""
        simulation, self._simulation = self._simulation, None
        if simulation is not None:
            self._library.linked_destroy(simulation)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class SocStream:
    """Line of a `SocChip` as a `matloom.device.link.Stream`, whose time is simulated time."""

    name = "the simulated system"

    def __init__(self, chip: SocChip, baud: int) -> None:
        self._chip, self.baud = chip, baud

    def write(self, data: bytes) -> None:
        """Queue bytes for the chip."""
        self._chip.send(data)

    def read(self, timeout: float) -> bytes:
        """Simulate until bytes are received and return them; b"" after `timeout` seconds."""
        self._chip.run(round(timeout * SOC_CLOCK_HZ))
        return self._chip.receive()

    def now(self) -> float:
        """Return the simulated time in seconds."""
        return self._chip.cycles / SOC_CLOCK_HZ

    def close(self) -> None:
        """End the simulation."""
        self._chip.close()


def open_soc(config: Config, memory_bytes: int) -> LinkTransport:
    """Boot a simulated system with firmware that implements the host link; return its transport.

    Parameters
    ----------
    config:
        Configuration of the engine.
    memory_bytes:
        Size in bytes of the external memory for the host; the firmware has its own.

    Raises
    ------
    ValueError, ToolError
        As in `SocChip`.
    DeviceError
        The firmware does not answer.
    """
    chip = SocChip(config, memory_bytes + IMAGE_BYTES)
    try:
        chip.load(link_server())
        return LinkTransport(Link(chip.stream))
    except BaseException:
        chip.close()
        raise


class SocTerminal(LineSimulation):
    """A simulated system on chip with its line on a pseudo-terminal, running until `close`.

    Parameters
    ----------
    config, memory_bytes:
        As in `SocChip`.
    """

    def __init__(self, config: Config, memory_bytes: int = _MEMORY_BYTES) -> None:
        library = _library(config, memory_bytes)
        super().__init__(library, MEMORY_BASE, memory_bytes, divisor=bit_cycles("default"))
