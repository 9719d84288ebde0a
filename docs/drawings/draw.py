"""Renders the wave diagrams of this folder: python docs/drawings/draw.py."""

from pathlib import Path

import wavedrom

FOLDER = Path(__file__).parent


def render(source: Path) -> str:
    """Return the SVG of a WaveDrom source."""
    return wavedrom.render(source.read_text()).tostring() + "\n"


if __name__ == "__main__":
    for source in sorted(FOLDER.glob("*.json")):
        source.with_suffix(".svg").write_text(render(source))
