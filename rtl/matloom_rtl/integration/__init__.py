"""Packages a chip for other flows: LiteX, FuseSoC, Platform Designer, Vivado; one file each."""

from pathlib import Path

from matloom_rtl.generate import Chip
from matloom_rtl.integration import fusesoc, platform_designer, smoke

__all__ = ["write"]

#: Copied unchanged: it reads the chip's sidecar.
_LITEX = Path(__file__).with_name("matloom_litex.py")


def write(chip: Chip, folder: Path) -> list[Path]:
    """Write the files for LiteX, FuseSoC and Platform Designer next to the chip's Verilog.

    The folder must exist. Vivado has a folder of its own: `ipxact.package`.
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
