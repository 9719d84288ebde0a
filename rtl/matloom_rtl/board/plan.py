"""Plan of a board's build: Verilog, constraints, tool options, and a digest."""

import hashlib
import re
from dataclasses import dataclass, fields
from typing import Any

from matloom.arch.blocks import columns_in_tables
from matloom.arch.config import Config, load_config
from matloom_rtl.board.definition import Board, Memory
from matloom_rtl.board.memory import words_of_bank
from matloom_rtl.board.pins import constraints
from matloom_rtl.board.pll import Pll
from matloom_rtl.board.top import BoardTop, settings_for
from matloom_rtl.convert import to_verilog
from matloom_rtl.fpga.devices import DEVICES, Device
from matloom_rtl.fpga.tools import find
from matloom_rtl.link.settings import LinkSettings
from matloom_rtl.netlist_digest import netlist_digest
from matloom_rtl.soc.cpu import cpu_source
from matloom_rtl.soc.settings import SocSettings, line_for

__all__ = ["BOARD_TOP", "Plan", "board_verilog", "make_plan"]

#: A memory initialised with zeros, one line per word.
_ZEROS = re.compile(r"^  initial begin\n(?:    \S+ ?\[\d+\] = \d+'[hd]0+;\n)+  end\n", re.MULTILINE)

#: Name of the Verilog top module.
BOARD_TOP = "matloom_board"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All inputs of a bitstream, except the placement seed.

    Members
    -------
    board, config, pll, link:
        The board, the engine, and the settings of PLL and link.
    verilog:
        Verilog of the top, `BOARD_TOP`, and all modules below it.
    constraints:
        Constraints of the pins and the oscillator.
    device:
        The device, with the options of this board.
    soft_columns:
        Number of columns of the array whose multipliers are built from lookup tables.
    soc:
        Settings of the processor that replaces the host link, if any.
    """

    board: Board
    config: Config
    pll: Pll
    link: LinkSettings
    verilog: str
    constraints: str
    device: Device
    soft_columns: int
    soc: SocSettings | None = None

    @property
    def name(self) -> str:
        """Base name of the plan's files."""
        return self.board.name if self.soc is None else f"{self.board.name}-soc"

    @property
    def clock_mhz(self) -> float:
        """Frequency in MHz that the design must reach."""
        return float(self.pll.output_hz) / 1e6

    def digest(self) -> str:
        """Return 16 hexadecimal digits that identify this plan and the installed tools."""
        tools = [find(tool).__dict__ for tool in self.device.tools]
        parts = (self.verilog, self.constraints, self.device.options, self.soft_columns, tools)
        flow = (*self.device.blocks.items(), *self.device.settings.items())
        return hashlib.sha256(repr((*parts, *flow)).encode()).hexdigest()[:16]

    def describe(self) -> dict[str, Any]:
        """Return the plan's entries for a report."""
        board, link = self.board, self.link
        return {
            "board": board.name,
            "device": self.device.name,
            "config": self.config.as_dict(),
            "config_digest": f"{self.config.digest:08x}",
            "netlist_digest": netlist_digest(self.verilog),
            "memory": _stated_fields(board.memory),
            "link": {"baud": link.baud, "divisor": link.divisor},
            "options": list(self.device.options),
            "columns_in_tables": self.soft_columns,
            **({"cpu": f"VexRiscv {self.soc.cpu}"} if self.soc else {}),
        }


def _stated_fields(memory: Memory) -> dict[str, Any]:
    """Return the memory fields that a board file must give, or that differ from the defaults."""
    found = {item.name: (getattr(memory, item.name), item.default) for item in fields(memory)}
    return {name: value for name, (value, default) in found.items() if value != default}


def board_verilog(
    board: Board, config: Config, pll: Pll, link: LinkSettings, soc: SocSettings | None = None
) -> str:
    """Return the Verilog of a board's top; its PLL is an instance of the family's cell.

    With `soc` a processor replaces the host link; its own Verilog is not included.

    Initial values of memories are left out: nothing depends on them, and Yosys takes minutes to
    read as many zeros as external memory has words.

    Raises
    ------
    ValueError
        The size of block RAM is not a multiple of a bank.
    """
    if board.memory.kind == "block":
        words_of_bank(board.memory.bytes, config.bus_bits)
    top = BoardTop(board, config, pll, link, soc)
    return _ZEROS.sub("", to_verilog(top, BOARD_TOP)[0])


def make_plan(
    board: Board,
    config: str | None = None,
    clock_hz: int | None = None,
    rom: bytes | None = None,
    cpu: str = "default",
) -> Plan:
    """Return the plan of a board, optionally with another engine or clock.

    With `rom`, the contents of a boot ROM, it is the plan of a system on chip with the processor
    `cpu`, a key of `matloom_rtl.soc.cpu.CPUS`.

    Raises
    ------
    ValueError
        The PLL cannot make the clock, or the link cannot divide it; the configuration does not
        exist, or its words do not divide the memory; or the processor does not exist.
    BoardError
        A pin cannot be found.
    """
    board = board if rom is None else board.with_processor()
    engine = load_config(config or board.config)
    pll, link = settings_for(board, clock_hz)
    link = link if rom is None else line_for(link, cpu)
    soc = None if rom is None else SocSettings(link=link, rom=rom, cpu=cpu)
    device = DEVICES[board.device]
    soft = columns_in_tables(engine, device.capacity["DSP"]) if device.soft_multiplier else 0
    changes = {"--freq": f"{float(pll.output_hz) / 1e6:g}"}
    changes |= {"--package": board.package} if board.package else {}
    changes |= {"--speed": board.speed} if board.speed else {}
    return Plan(
        board=board,
        config=engine,
        pll=pll,
        link=link,
        verilog=board_verilog(board, engine, pll, link, soc)
        + (cpu_source(soc.cpu).read_text() if soc else ""),
        constraints=constraints(board, device.family, device.margin),
        device=device.with_options(changes),
        soft_columns=soft,
        soc=soc,
    )
