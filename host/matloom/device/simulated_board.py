"""A whole board, simulated on a pseudo-terminal with all of its bitstream except the PLL."""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from matloom.device.errors import DeviceError
from matloom.device.line_simulation import DIVISOR, HARNESS, LineSimulation, SimulatorSources, build
from matloom.device.soc import bit_cycles
from matloom.toolchain.soc_firmware import boot_rom

_FOLDER = HARNESS / "board"


def _cycles_per_bit(cpu: str | None) -> int:
    """Return the cycles per bit of the line, more with a processor, whose firmware is slower."""
    return bit_cycles(cpu) if cpu else DIVISOR


def _board(name: str, cpu: str | None) -> Any:
    """Return the board to simulate, with its processor if `cpu` is given."""
    from matloom_rtl.board.definition import load_board

    found = load_board(name)
    return found.with_processor() if cpu else found


def _simulator_sources(name: str, config: str | None, cpu: str | None) -> SimulatorSources:
    """Return the sources of the simulator of a board, with a processor if `cpu` is given."""
    from matloom.arch.config import load_config
    from matloom_rtl.board.plan import BOARD_TOP, board_verilog
    from matloom_rtl.board.top import settings_for
    from matloom_rtl.soc.cpu import cpu_source
    from matloom_rtl.soc.settings import SocSettings

    board = _board(name, cpu)
    engine = load_config(config or board.config)
    clock_hz = round(settings_for(board)[0].output_hz)
    pll, link = settings_for(board, baud=clock_hz // _cycles_per_bit(cpu))
    soc = SocSettings(link=link, rom=boot_rom(), cpu=cpu) if cpu else None
    has_sdram = board.memory.kind == "sdram"
    defines: tuple[str, ...] = ("MATLOOM_SDRAM",) if has_sdram else ()
    defines += ("MATLOOM_PROCESSOR",) if cpu else ()
    options: tuple[str, ...] = ("--pins-inout-enables",) if has_sdram else ()
    defines += ("MATLOOM_GEARED",) if board.memory.gear > 1 else ()
    defines += tuple(f"MATLOOM_WIRED_{name.upper()}" for name in board.memory.wired)
    return SimulatorSources(
        top=BOARD_TOP,
        verilog=board_verilog(board, engine, pll, link, soc),
        label=f"board-{board.name}{'-soc' if cpu else ''}-{engine.digest:08x}",
        harness=_FOLDER / "board.cpp",
        models=(_FOLDER / "cells.v", *([cpu_source(cpu)] if cpu else [])),
        defines=defines,
        options=options,
    )


def _sdram_shape(name: str, cpu: str | None, stricter: dict[str, int]) -> Any:
    """Return the parameters of the model of a board's SDRAM; None if it has no SDRAM.

    `stricter` replaces cycles of rules, by name.
    """
    from matloom.arch.sdram import load_sdram
    from matloom_rtl.board.top import settings_for
    from matloom_rtl.sdram.testing import shape_of

    board = _board(name, cpu)
    if board.memory.kind != "sdram":
        return None
    part = load_sdram(board.memory.part)
    clock_hz = round(settings_for(board)[0].output_hz)
    shape = shape_of(part, part.timing_of_gear(clock_hz, board.memory.gear))
    for field, value in stricter.items():
        setattr(shape, field, value)
    return shape


class SimulatedBoard(LineSimulation):
    """A board's top module in Verilator; it runs until `close`, or until an SDRAM rule is broken.

    The PLL passes its input through and locks after some cycles; a double-rate SDRAM has two edges
    per cycle. The line is as fast as the link allows: two cycles per bit, more with a processor.
    Everything else is the Verilog of the bitstream, with models of the pin cells and of the SDRAM.

    Members
    -------
    breach:
        The broken SDRAM rule, as a sentence; "" if none is broken.
    stopped:
        Event that is set when an SDRAM rule is broken; the line is then closed.

    Parameters
    ----------
    name:
        Name of the board, or path of its file.
    config:
        Configuration of the engine, if it is not the board's.
    optimise, on_line:
        As in `matloom.device.linked.LinkedChip`.
    cpu:
        A processor instead of the host link, one of `matloom_rtl.soc.cpu.CPUS`: its boot ROM
        waits for an image.
    sdram:
        Cycles of SDRAM rules that differ from the part's, by the names in `SdramTiming`.

    Raises
    ------
    ValueError
        The board, configuration or processor does not exist.
    ToolError
        The boot ROM cannot be compiled (`matloom.toolchain.soc_firmware`).
    DeviceError
        Raised by `close`, with the sentence of `breach`.
    """

    def __init__(
        self,
        name: str,
        config: str | None = None,
        optimise: bool = True,
        on_line: Callable[[str], None] | None = None,
        sdram: dict[str, int] | None = None,
        cpu: str | None = None,
    ) -> None:
        self.breach, self.stopped = "", threading.Event()
        self._name = name
        library = build(_simulator_sources(name, config, cpu), optimise, on_line)
        shape = _sdram_shape(name, cpu, sdram or {})
        super().__init__(library, sdram=shape, divisor=_cycles_per_bit(cpu))

    def _serve(self) -> None:
        """Run the simulation; if a rule of the SDRAM was broken, tell it in `breach`."""
        super()._serve()
        from matloom_rtl.sdram.testing import RULES

        cycle = ctypes.c_uint64()
        find = self._library.linked_breach
        find.restype, find.argtypes = ctypes.c_uint32, [ctypes.c_void_p, ctypes.c_void_p]
        rule = RULES[find(self._simulation, ctypes.addressof(cycle))]
        if rule != RULES[0]:
            self.breach = (
                f"the SDRAM of {self._name} must be driven by its rules, and {rule} was broken in "
                f"cycle {cycle.value} (docs/sdram.md, The rules); the simulation has stopped"
            )
            self.stopped.set()
            self._hang_up()

    def _call(self, name: str, result: Any, *arguments: Any) -> Any:
        """Call the library's `linked_<name>` with this board; `result` is its ctypes type."""
        function = getattr(self._library, f"linked_{name}")
        function.restype = result
        return function(ctypes.c_void_p(self._handle), *arguments)

    def restart_after(self, cycles: int) -> None:
        """Restart the board after `cycles` more cycles (1 or more) in which a byte is on the line.

        The FPGA is configured again and its SDRAM loses its contents; bytes on the line survive, as
        with a USB bridge that has its own power.
        """
        self._call("restart_after", None, ctypes.c_uint32(cycles))

    @property
    def starts(self) -> int:
        """Number of times that the board has started."""
        return int(self._call("starts", ctypes.c_uint32))

    @property
    def written_bytes(self) -> int:
        """Number of bytes written to the SDRAM by WRITE commands, without masked ones."""
        return int(self._call("written", ctypes.c_uint64))

    def close(self) -> None:
        """End the simulation; a second call does nothing.

        The first call raises DeviceError if an SDRAM rule was broken.
        """
        first = not self._stop.value
        super().close()
        if first and self.breach:
            raise DeviceError(
                self.breach,
                hint="it is a defect of the board's design: please report it with the board's file",
            )
