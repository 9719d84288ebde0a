"""The netlist of the chip, as Yosys maps it to ECP5 cells for a bitstream, in Verilator."""

import ctypes
import hashlib
from collections.abc import Callable
from pathlib import Path

from matloom.arch.config import Config
from matloom.device.rtl import RtlTransport
from matloom.device.simulator import (
    arguments,
    build_chip_simulator,
    cached_or_built,
    load,
    source_digest,
)

#: Approximate minutes to build the simulator of `nano`; larger engines take longer.
_MINUTES = 6.0


def build(config: Config, trace: str = "", on_line: Callable[[str], None] | None = None) -> Path:
    """Return the path of the simulator library of a configuration's netlist, cached or new.

    Parameters
    ----------
    trace:
        Format of waves to support, one of `matloom.device.waves.FORMATS`; empty for none.

    Raises
    ------
    matloom_rtl.fpga.progress.FlowError
        Yosys fails, or is not installed (it comes with the extra ``fpga``).
    """
    from matloom_rtl.fpga.netlist import yosys_version

    digest = f"netlist {yosys_version()} {source_digest(config, trace, 'none')}"
    key = hashlib.sha256(digest.encode()).hexdigest()
    return cached_or_built(key, config, lambda: _build(config, trace, on_line), _MINUTES)


def _build(config: Config, trace: str, on_line: Callable[[str], None] | None) -> Path:
    """Map the chip to cells of an FPGA, and build the simulator of the netlist."""
    from matloom_rtl.fpga.netlist import map_chip
    from matloom_rtl.generate import generate

    chip = generate(config)
    verilog = map_chip(chip, on_line or (lambda _line: None))
    # Cells are too small to be separate modules in a simulation.
    flags = [*arguments(config, trace, "none"), "--flatten"]
    return build_chip_simulator(chip, verilog, flags, on_line=on_line)


class NetlistTransport(RtlTransport):
    """Transport like `RtlTransport` that simulates the netlist of the chip.

    Results and cycles are the same if Yosys is right. The first build takes minutes; it simulates
    about 90,000 cycles per second. Registers and memories start as in a bitstream; `state_seed` has
    no effect.
    """

    def _load(
        self, config: Config, trace: str, on_line: Callable[[str], None] | None
    ) -> ctypes.CDLL:
        """Load the simulator library of the netlist."""
        return load(build(config, trace, on_line))
