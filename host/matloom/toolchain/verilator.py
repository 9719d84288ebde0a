"""Runs Verilator, to lint Verilog or to build a simulation library from it."""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from matloom.terminal.progress import set_activity
from matloom.toolchain.cache import entry, exclusive
from matloom.toolchain.find_verilator import Verilator, find_verilator
from matloom.toolchain.process import run
from matloom.toolchain.workspace import Workspace, workspace

#: Name of an empty module, name of the header that is precompiled, and the two kinds of code that
#: use it: code that runs often, and code that runs rarely.
_EMPTY, _HEADERS, _KINDS = "matloom_empty", "headers.h", ("FAST", "SLOW")


@dataclass(frozen=True, kw_only=True)
class LintWarning:
    """A warning of Verilator.

    `kind` is its class, such as UNUSEDSIGNAL, and `place` is ``FILE:LINE:COLUMN``.
    """

    kind: str
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.place}: {self.text}"


def build_arguments(top: str, *, jobs: int = 2) -> list[str]:
    """Return Verilator's arguments for a fast shared library of module `top`.

    They are part of the keys of caches.
    """
    return [
        *("--cc", "--exe", "--build", "--build-jobs", str(jobs)),
        *("--top-module", top, "--prefix", f"V{top}"),
        *("-O3", "--x-assign", "fast", "--x-initial", "unique", "--no-assert", "-Wno-fatal"),
        *("-CFLAGS", "-fPIC", "-LDFLAGS", "-shared"),
        # With -O2 the build of an 8x16 takes 12 s longer, of 29, and `ic` 0.31 s instead of 0.33;
        # with -O3 the build takes a quarter longer still, and the simulation is no faster.
        *("-MAKEFLAGS", "OPT_FAST=-O1"),
    ]


def compile_library(
    sources: Sequence[Path],
    top: str,
    harness: Sequence[Path],
    output: Path,
    *,
    flags: Sequence[str] = (),
    jobs: int = 2,
    on_line: Callable[[str], None] | None = None,
) -> None:
    """Build a shared library from Verilog and a C++ harness, without a lock, even if it exists."""
    verilator = find_verilator()
    runtime = _compiled_runtime(
        verilator, [each for each in _flag_tuples(flags) if not _is_own_flag(each)]
    )
    with workspace() as work:
        objects = work.path / "made"
        objects.mkdir()
        arguments = [
            *build_arguments(top, jobs=jobs),
            *_linked_flags(flags, work),
            "--Mdir",
            str(objects),
        ]
        arguments += ["-o", output.name, *_header_settings(work.folder(runtime))]
        for compiled in runtime.glob("*.o"):
            shutil.copy(compiled, objects)
            # Otherwise make would consider it newer than Verilator's files.
            arguments += ["-MAKEFLAGS", f"--assume-old={compiled.name}"]
        files = [*map(work.file, sources), *_copy_files(harness, work)]
        arguments += _include_flags(harness, work)
        set_activity("translating Verilog into C++")
        _translate(verilator, [*arguments, *files], work, _Progress(objects, len(harness), on_line))
        with tempfile.TemporaryDirectory(prefix=f"{output.stem}-", dir=output.parent) as scratch:
            shutil.copy(objects / output.name, scratch)
            (Path(scratch) / output.name).replace(output)


class _Progress:
    """Counts the compilations in lines of Verilator's output, and passes the lines on."""

    def __init__(self, folder: Path, harness: int, on_line: Callable[[str], None] | None) -> None:
        self._made, self._harness, self._on_line = folder, harness, on_line
        self._compiled = 0

    def __call__(self, line: str) -> None:
        if re.search(r"\s-c\s", line):
            total = self._harness + _count_generated_files(self._made)
            set_activity(f"{self._compiled} of {total} files compiled")
            self._compiled += 1
        if self._on_line:
            self._on_line(line)


def _include_flags(harness: Sequence[Path], workspace: Workspace) -> list[str]:
    """Return flags with which copied C++ files find the headers next to their originals."""
    folders = dict.fromkeys(workspace.folder(path.parent) for path in harness)
    return [word for folder in folders for word in ("-CFLAGS", f"-I{folder}")]


def _copy_files(harness: Sequence[Path], workspace: Workspace) -> list[Path]:
    """Copy C++ files into a workspace; return the paths of the copies.

    Verilator resolves links and writes real paths to the makefile, which make may not handle.
    """
    folder = workspace.path / "harness"
    folder.mkdir()
    return [Path(shutil.copy(path, folder)) for path in harness]


def _count_generated_files(folder: Path) -> int:
    """Return the number of generated C++ files that make compiles.

    For a small design, a single file includes all others.
    """
    (classes,) = folder.glob("*_classes.mk")
    if "VM_PARALLEL_BUILDS = 1" not in classes.read_text():
        return 1
    return sum(not path.stem.endswith("__ALL") for path in folder.glob("*.cpp"))


def _linked_flags(flags: Sequence[str], workspace: Workspace) -> list[str]:
    """Return compiler flags in which include folders (-I) are replaced by links in a workspace."""
    return [
        f"-I{workspace.folder(Path(flag[2:]))}" if flag.startswith("-I") else flag for flag in flags
    ]


def require_working() -> None:
    """Start Verilator as a build does; raise `ToolError` if it does not run."""
    with workspace() as work:
        _translate(find_verilator(), ["--version"], work)


def _translate(
    verilator: Verilator,
    arguments: Sequence[str | Path],
    workspace: Workspace,
    on_line: Callable[[str], None] | None = None,
) -> list[str]:
    """Run Verilator, which may call make; return the lines that both printed.

    Paths in `arguments` must lie in the workspace, so that both programs can handle them.
    """
    root = workspace.folder(verilator.root)
    environment = {"TMPDIR": str(workspace.path)}
    command = [verilator.binary, *arguments]
    if verilator.environment:
        # Verilator's script passes its real path to a shell; this does the same without it.
        environment["VERILATOR_ROOT"] = str(root)
        deep = 'ulimit -s unlimited 2>/dev/null; exec "$@"'
        command = ["sh", "-c", deep, "verilator", root / "bin" / "verilator_bin", *arguments]
    return run(command, environment=environment, on_line=on_line, folder=workspace.path)


def _flag_tuples(flags: Sequence[str]) -> list[tuple[str, ...]]:
    """Return Verilator's flags, each as a tuple of the flag and its values, if any."""
    starts = [place for place, flag in enumerate(flags) if flag.startswith("-")]
    starts = [place for place in starts if not (place and flags[place - 1] == "-CFLAGS")]
    return [tuple(flags[first:end]) for first, end in pairwise([*starts, len(flags)])]


def _is_own_flag(flag: tuple[str, ...]) -> bool:
    """Return whether a flag affects only the chip and its harness, not Verilator's own files."""
    return flag[-1].startswith(("-DMATLOOM_", "-I", "--pins-"))


def _header_settings(folder: Path) -> list[str]:
    """Return the make settings that reuse precompiled headers of Verilator from a folder.

    Without them, headers are compiled for each chip, once for fast and once for slow code.
    """
    include = [f"VK_PCH_I_{kind}='-include {folder / _HEADERS}.{kind.lower()}'" for kind in _KINDS]
    return [
        word
        for each in (f"VK_PCH_H={folder / _HEADERS}", *include)
        for word in ("-MAKEFLAGS", each)
    ]


def _compiled_runtime(verilator: Verilator, flags: Sequence[tuple[str, ...]]) -> Path:
    """Return the cached folder of Verilator's own files and headers, compiled with some flags.

    All chips built with these flags share it. Compiling them takes two thirds of the build time of
    a small chip. They are made by building an empty module.
    """
    words = [word for flag in flags for word in flag]
    identity = json.dumps(
        [verilator.version, str(verilator.root), *build_arguments(_EMPTY), *words]
    )
    name = hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]
    return entry(f"runtimes/{name}", lambda made: _compile_runtime(verilator, words, made))


def _compile_runtime(verilator: Verilator, words: Sequence[str], folder: Path) -> None:
    """Compile Verilator's own files and headers with some flags into a folder."""
    # GCC falls back to the text if the precompiled header does not fit.
    for name in ("", *(f".{kind.lower()}" for kind in _KINDS)):
        (folder / f"{_HEADERS}{name}").write_text('#include "verilated.h"\n')
    set_activity("compiling what all simulators share")
    with workspace() as work:
        source, scratch = work.path / f"{_EMPTY}.v", work.path / "scratch"
        scratch.mkdir()
        source.write_text(f"module {_EMPTY}; endmodule\n")
        arguments = [*build_arguments(_EMPTY), *words, "--Mdir", str(scratch), "-o", "empty.so"]
        # Otherwise such a small module would be compiled as one file, without precompiled headers.
        apart = ["-MAKEFLAGS", "VM_PARALLEL_BUILDS=1"]
        headers = _header_settings(work.folder(folder))
        _translate(verilator, [*arguments, *apart, *headers, source], work)
        for compiled in scratch.glob("verilated*.o"):
            shutil.copy(compiled, folder)


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
    """Translate Verilog, compile it with a C++ harness, and return the shared library `output`.

    The harness includes `V<top>.h` and gives its functions C linkage; load the library with ctypes.
    `output` appears complete or not at all, and an existing one is kept, so its path should contain
    a key of all inputs. Concurrent processes build it only once. The simulation has no unknown
    values and no assertions: registers without an initial value start as the harness tells the
    model's context.

    Parameters
    ----------
    flags:
        More arguments for Verilator, such as `--trace-vcd`, `-DNAME=1` or `-CFLAGS`.
    jobs:
        Number of compilers that run at the same time.
    on_line:
        Called with each line that the tools print.

    Raises
    ------
    ToolError
        A tool is missing or rejects the sources; the message quotes its first error.
    """
    with exclusive(output):
        if not output.exists():
            compile_library(sources, top, harness, output, flags=flags, jobs=jobs, on_line=on_line)
    return output


def lint(sources: Sequence[Path], top: str, waivers: Sequence[str] = ()) -> list[LintWarning]:
    """Return Verilator's `-Wall` warnings about a design, in order, without the waived classes.

    Raises `ToolError` if the sources are not legal Verilog.
    """
    command: list[str | Path] = ["--lint-only", "-Wall", "-Wno-fatal"]
    command += [f"-Wno-{kind}" for kind in waivers]
    with workspace() as work:
        files = {str(work.file(source)): str(source) for source in sources}
        lines = _translate(find_verilator(), [*command, "--top-module", top, *files], work)
    found = (re.match(r"%Warning-(\w+): (\S+?)(:\d+:\d+): (.*)", line) for line in lines)
    return [
        LintWarning(kind=match[1], place=files.get(match[2], match[2]) + match[3], text=match[4])
        for match in found
        if match is not None
    ]
