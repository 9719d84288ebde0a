"""The packaged C sources: their location, and the files that every firmware links."""

from pathlib import Path

#: The firmware folder: data of an installed package, and in a clone a link to `firmware/`.
FIRMWARE = Path(__file__).resolve().parents[1] / "firmware"


def linked_sources() -> tuple[str, ...]:
    """Return the sources that every firmware links, relative to `FIRMWARE`: driver and kernels."""
    found = (path for folder in ("driver", "kernels") for path in (FIRMWARE / folder).glob("*.c"))
    return tuple(sorted(path.relative_to(FIRMWARE).as_posix() for path in found))
