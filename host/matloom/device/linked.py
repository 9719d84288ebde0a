"""The generated chip with its host link in Verilator, connected to a pseudo-terminal."""

from collections.abc import Callable

from matloom.arch.config import Config
from matloom.device.line_simulation import DIVISOR, HARNESS, LineSimulation, SimulatorSources, build

#: Bus address at which the external memory of the simulation begins.
_MEMORY_BASE = 0x8000_0000

#: Clock frequency that the simulation reports: about its real speed, so that timeouts of the host
#: are realistic.
_CLOCK_HZ = 1_000_000


def _simulator_sources(config: Config, memory_bytes: int) -> SimulatorSources:
    """Return the sources of the simulator of an engine with host link and memory."""
    from matloom_rtl.generate import LINKED_NAME, generate_linked
    from matloom_rtl.link.settings import LinkSettings

    settings = LinkSettings(
        clock_hz=_CLOCK_HZ,
        baud=_CLOCK_HZ // DIVISOR,
        board="simulation",
        memory_base=_MEMORY_BASE,
        memory_bytes=memory_bytes,
    )
    return SimulatorSources(
        top=LINKED_NAME,
        verilog=generate_linked(config, settings).verilog,
        label=f"linked-{config.digest:08x}",
        harness=HARNESS / "linked" / "linked.cpp",
        defines=(f"MATLOOM_BUS_BYTES={config.bus_bytes}",),
    )


class LinkedChip(LineSimulation):
    """A simulated board: engine, host link and memory; it runs until `close`.

    Parameters
    ----------
    config:
        Configuration of the engine.
    memory_bytes:
        Size of the external memory.
    optimise:
        Whether to compile the simulator for speed, which pays off from a few million cycles.
    on_line:
        Called with each line that the tools print while the simulator is built.
    """

    def __init__(
        self,
        config: Config,
        memory_bytes: int = 1 << 24,
        optimise: bool = True,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        library = build(_simulator_sources(config, memory_bytes), optimise, on_line)
        super().__init__(library, _MEMORY_BASE, memory_bytes)
