"""Location of the packaged C sources, and list of those that every firmware links."""

from pathlib import Path

#: Folder of the C sources: part of an installed package, and in a clone a link to `firmware/`.
FIRMWARE = Path(__file__).resolve().parents[1] / "firmware"


def linked_sources() -> tuple[str, ...]:
    """Return the paths, relative to `FIRMWARE`, of the sources of the driver and the kernels."""
    found = (path for folder in ("driver", "kernels") for path in (FIRMWARE / folder).glob("*.c"))
    return tuple(sorted(path.relative_to(FIRMWARE).as_posix() for path in found))
