"""Generated files, and the functions that return their texts."""

from collections.abc import Callable
from pathlib import Path

from matloom.arch.generate.bus_header import bus_header
from matloom.arch.generate.configuration_page import configuration_page
from matloom.arch.generate.format_header import format_header
from matloom.arch.generate.format_page import format_page
from matloom.arch.generate.header import header
from matloom.arch.generate.pages import isa_page, registers_page
from matloom.arch.generate.soc import soc_header, soc_page

#: Root folder of the repository.
ROOT = Path(__file__).resolve().parents[4]

FILES: dict[str, Callable[[], str]] = {
    "firmware/include/matloom_regs.h": header,
    "firmware/include/matloom_format.h": format_header,
    "host/matloom/device/harness/bus_rules.h": bus_header,
    "docs/isa.md": isa_page,
    "docs/registers.md": registers_page,
    "docs/configuration.md": configuration_page,
    "docs/format.md": format_page,
    "firmware/include/matloom_soc.h": soc_header,
    "docs/soc.md": soc_page,
}
