"""The chip as a cocotb program, built by Verilator once and kept in the cache."""

import hashlib
import json
import os
import shutil
from importlib import metadata
from pathlib import Path
from unittest import mock

import cocotb
import cocotb_tools.config
from cocotb_tools.runner import get_runner

from matloom.arch.config import Config
from matloom.toolchain.cache import entry
from matloom.toolchain.find_verilator import find_verilator
from matloom.toolchain.workspace import Workspace, workspace
from matloom_rtl.generate import TOP_NAME, Chip, generate

#: The registers and memories of the chip stay private to Verilator, which makes it fast; but for
#: the accumulators where there is parity, in which `tb_guards` flips bits.
_ARGUMENTS = ["-Wno-fatal", "--no-public-flat-rw", "-O3", "--x-initial", "fast", "--no-assert"]
#: For make, which else has g++ optimise for size: that takes longer, and runs no faster.
_FAST = "OPT_FAST=-O1"
_PUBLIC = f'`verilator_config\npublic_flat_rw -module "{TOP_NAME}" -var "*"\n'
_SUMS = f'public_flat_rw -module "{TOP_NAME}.core.accumulators" -var "bank_*"\n'

#: Where cocotb's libraries lie: the program finds them by LD_LIBRARY_PATH.
LIBRARIES = cocotb_tools.config.libs_dir


def built(config: Config, waves: bool) -> Path:
    """Return the folder of the program, which the cache keeps.

    The key covers Verilog, tools, flags, and the location of cocotb.
    """
    chip = generate(config)
    versions = [find_verilator().version, metadata.version("cocotb"), cocotb.__file__]
    public = _PUBLIC + _SUMS * config.parity
    key = hashlib.sha256()
    for part in (chip.verilog, public, json.dumps([versions, _ARGUMENTS, _FAST, waves])):
        key.update(part.encode() + b"\0")
    name = f"sim_tests/{config.digest:08x}-{key.hexdigest()[:16]}"
    return entry(name, lambda made: _build(chip, public, made, waves))


def _build(chip: Chip, public: str, made: Path, waves: bool) -> None:
    """Build in a folder with a plain name, and link to cocotb and Verilator from there."""
    with workspace() as work:
        folder = work.path / "build"
        chip.write(folder)
        control = folder / "public.vlt"
        control.write_text(public)
        libraries, shared = map(work.folder, map(Path, (LIBRARIES, cocotb_tools.config.share_dir)))
        with (
            mock.patch.dict(os.environ, _environment(work)),
            mock.patch.multiple(cocotb_tools.config, libs_dir=libraries, share_dir=shared),
        ):
            get_runner("verilator").build(
                sources=[control, folder / f"{TOP_NAME}.v"],
                hdl_toplevel=TOP_NAME,
                build_dir=folder,
                build_args=_ARGUMENTS,
                timescale=("1ns", "1ps"),
                waves=waves,
                log_file=made / "build.log",
            )
        shutil.copy(folder / TOP_NAME, made)


def _environment(work: Workspace) -> dict[str, str]:
    """Return environment variables with which make finds Verilator under a plain name."""
    found = find_verilator()
    if not found.environment:
        return {"MAKEFLAGS": _FAST}
    program = work.path / "bin" / "verilator"
    program.parent.mkdir()
    # The wheel's own script passes the path that it is really at to a shell.
    program.write_text('#!/bin/sh\nexec "$VERILATOR_ROOT/bin/verilator_bin" "$@"\n')
    program.chmod(0o755)
    return {
        "MAKEFLAGS": _FAST,
        "VERILATOR_ROOT": str(work.folder(found.root)),
        "PATH": f"{program.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
