"""Packages of a chip for other flows: LiteX, FuseSoC, Platform Designer and Vivado."""

from pathlib import Path

from matloom_rtl.generate import Chip
from matloom_rtl.integration import fusesoc, platform_designer, smoke

__all__ = ["write"]

#: Module for LiteX, copied unchanged: it reads the chip's JSON file.
_LITEX = Path(__file__).with_name("matloom_litex.py")


def write(chip: Chip, folder: Path) -> list[Path]:
    """Write the files for LiteX, FuseSoC and Platform Designer next to the chip's Verilog.

    Return their paths. The folder must exist. `ipxact.package` writes a folder for Vivado.
    """
    top = chip.sidecar["top"]
    texts = {
        f"{top}_litex.py": _LITEX.read_text(),
        f"{top}.core": fusesoc.core(chip),
        f"{top}_tb.v": smoke.testbench(chip),
        f"{top}_hw.tcl": platform_designer.component(chip),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in texts]
