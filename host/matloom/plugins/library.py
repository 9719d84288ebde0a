"""Makes the two shared libraries of a plug-in: the plug-in itself, and the simulated chip."""

import os
import shutil
from pathlib import Path

from matloom.arch.config import Config
from matloom.device.simulator import build
from matloom.toolchain.firmware import FIRMWARE
from matloom.toolchain.process import ToolError, run

#: Source of each runtime's library, besides the shared sources.
PLUGINS = {"litert": "litert.c", "onnxruntime": "ort.c"}

_FLAGS = (
    *("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden"),
    *("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"),
)


def compile_plugin(runtime: str, folder: Path) -> Path:
    """Compile the plug-in for a runtime (a key of `PLUGINS`) into `folder`; return its path.

    Raises
    ------
    ToolError
        There is no C compiler, or compilation fails.
    """
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise ToolError(
            "a plug-in needs a C compiler, and there is none", hint="install gcc, or set CC"
        )
    target = folder / f"libmatloom_{runtime}.so"
    sources = [FIRMWARE / "plugins" / name for name in (PLUGINS[runtime], "bundle.c", "device.c")]
    sources += [*sorted((FIRMWARE / "driver").glob("*.c")), FIRMWARE / "support" / "linux_uio.c"]
    run([compiler, *_FLAGS, "-I", FIRMWARE / "include", *sources, "-ldl", "-o", target])
    return target


def copy_chip(config: Config, folder: Path) -> Path:
    """Build the simulated chip of a configuration and copy it into `folder`; return its path."""
    target = folder / "chip.so"
    # Replaced, not overwritten: a process may be using the existing file.
    partial = target.with_suffix(f".{os.getpid()}")
    shutil.copy(build(config), partial)
    return partial.replace(target)
