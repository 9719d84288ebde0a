"""Writes a firmware folder with driver, kernels and networks in C, for common build systems."""

from collections.abc import Mapping
from pathlib import Path

import matloom
from matloom.program import EngineStep, Program
from matloom.toolchain.firmware import FIRMWARE, linked_sources
from matloom.tools.c_names import buffer_names
from matloom.tools.emit_c import emit_c

_HEADERS = ("matloom", "matloom_format", "matloom_kernels", "matloom_pre", "matloom_regs")
#: Internal headers of driver and kernels.
_INTERNAL = (
    *("driver/internal.h", "driver/rules.h"),
    *("kernels/exponentials.h", "kernels/fixed_point.h"),
)
#: Files of the Zephyr example that the Zephyr module needs.
_ZEPHYR = ("Kconfig", "dts/bindings/matloom,engine.yaml", "matloom_zephyr.c", "matloom_zephyr.h")
_PROJECT = ("CMakeLists.txt", "README.md", "library.json", "library.properties")


def project_files() -> dict[str, str]:
    """Return the contents of driver, kernels and build files, by path in the firmware folder."""
    sources = linked_sources()
    words = {
        "VERSION": matloom.__version__,
        "SOURCES": "\n".join(f"- `src/{source}`" for source in sources),
    }
    found = {name: f"project/{name}" for name in (*_PROJECT, *_zephyr_build())}
    found |= {f"zephyr/{name}": f"examples/zephyr/{name}" for name in _ZEPHYR}
    found |= {f"src/{name}.h": f"include/{name}.h" for name in _HEADERS}
    found |= {f"src/{name}": name for name in (*sources, *_INTERNAL)}
    found |= {f"test/{name}": f"tests/{name}" for name in ("fake_bus.c", "fake_bus.h")}
    found["support/memory.c"] = "support/memory.c"
    return {path: _fill_in(source, words) for path, source in sorted(found.items())}


def _zephyr_build() -> tuple[str, ...]:
    """Return the paths of the build files for Zephyr."""
    return ("zephyr/CMakeLists.txt", "zephyr/module.yml")


def network_files(program: Program, name: str) -> dict[str, str]:
    """Return a network in C, its host test and its Arduino sketch, by path in the folder.

    Raises
    ------
    EmitError
        A step of the host has no kernel in C.
    """
    source, header = emit_c(program, name)
    buffers = buffer_names(program, name)
    ends = (program.inputs or program.outputs, program.outputs)
    first, result = (buffers[infos[0].key] for infos in ends)
    words = {
        "NETWORK": name,
        "MACRO": name.upper(),
        "DIGEST": f"{program.config.digest:#010x}",
        "RUNS": str(sum(isinstance(step, EngineStep) for step in program.steps)),
        **{"INPUT": first, "INPUT_MACRO": first.upper()},
        **{"OUTPUT": result, "OUTPUT_MACRO": result.upper()},
    }
    return {
        f"src/{name}.c": source,
        f"src/{name}.h": header,
        f"test/test_{name}.c": _fill_in("project/network/test.c", words),
        f"examples/{name}/{name}.ino": _fill_in("project/network/sketch.ino", words),
    }


def _fill_in(source: str, words: Mapping[str, str]) -> str:
    """Return a file of the firmware folder with `@WORD@` placeholders replaced."""
    text = (FIRMWARE / source).read_text()
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into a folder, and remove driver and kernel sources that are not among them.

    Raises
    ------
    OSError
        A file cannot be written; the error has its path. Files written earlier are kept.
    """
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.write_text(text)
        except OSError as error:  # one of writing, as when a disk is full, does not name the file
            raise OSError(error.errno, error.strerror, str(path)) from error
    for part in ("driver", "kernels"):
        for path in (folder / "src" / part).glob("*.[ch]"):
            if f"src/{part}/{path.name}" not in files:
                path.unlink()
