"""Verilator: its selection, its warnings, and a counter simulated through ctypes."""

import ctypes
import os
from pathlib import Path
from textwrap import dedent

import pytest

from matloom.toolchain import verilator
from matloom.toolchain.find_verilator import find_verilator
from matloom.toolchain.process import ToolError
from matloom.toolchain.verilator import build_library, lint
from support.folders import FOLDERS

COUNTER = """
    module counter(input wire clk, input wire [7:0] step, output reg [7:0] count);
        initial count = 0;
        always @(posedge clk) count <= count + step;
    endmodule
"""
HARNESS = """
    #include "Vcounter.h"
    extern "C" unsigned count_to(unsigned step, unsigned cycles) {
        VerilatedContext context;
        Vcounter counter{&context};
        counter.step = step;
        for (unsigned cycle = 0; cycle < cycles; cycle++) {
            counter.clk = 0;
            counter.eval();
            counter.clk = 1;
            counter.eval();
        }
        return counter.count;
    }
"""


def write(path, text):
    path.write_text(dedent(text))
    return path


@pytest.fixture
def counter(tmp_path):
    return write(tmp_path / "counter.v", COUNTER)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Put a stand-in named `verilator` first on PATH, and reset the cached lookup."""

    def install(version):
        folder = tmp_path / "bin"
        folder.mkdir()
        case = f'[ "$1" = --version ] && echo "Verilator {version} 2025-01-01" || echo /share/root'
        write(folder / "verilator", f"#!/bin/sh\n{case}\n").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        return folder / "verilator"

    find_verilator.cache_clear()
    yield install
    find_verilator.cache_clear()


def test_counter_counts(counter, tmp_path):
    harness = write(tmp_path / "harness.cpp", HARNESS)
    output = tmp_path / "out" / "libcounter.so"
    lines = []
    assert build_library([counter], "counter", [harness], output, on_line=lines.append) == output
    assert [path.name for path in output.parent.iterdir() if path.is_dir()] == []
    assert any("g++" in line for line in lines)
    library = ctypes.CDLL(str(output))
    assert library.count_to(3, 100) == 300 % 256

    # It is not built again.
    built = len(lines)
    build_library([counter], "counter", [harness], output, on_line=lines.append)
    assert len(lines) == built


def test_shared_sources_are_compiled_once_for_equal_flags(tmp_path, monkeypatch):
    """A build uses Verilator's own files as compiled before, unchanged."""
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path / "cache"))
    told = []

    def pretend(command, **_options):
        folder = Path(command[command.index("--Mdir") + 1])
        there = sorted(path.name for path in folder.glob("*.o"))
        told.append((there, [word for word in command if "--assume-old" in str(word)]))
        (folder / "verilated.o").write_text("compiled")
        (folder / "harness.o").write_text("compiled")
        (folder / command[command.index("-o") + 1]).write_text("library")

    monkeypatch.setattr(verilator, "run", pretend)
    bus = [["-CFLAGS", f"-DMATLOOM_BUS_BYTES={count}"] for count in (4, 8)]
    more = (["--pins-inout-enables"], ["--trace-vcd"], ["-CFLAGS", "-g", "--trace-vcd"])
    for number, flags in enumerate((*bus, *more)):
        output = tmp_path / str(number) / "lib.so"
        output.parent.mkdir()
        build_library([tmp_path / "chip.v"], "chip", [], output, flags=flags)
    shared, chip = ([], []), (["verilated.o"], ["--assume-old=verilated.o"])
    assert told == [shared, chip, chip, chip, shared, chip, shared, chip]


@pytest.mark.slow
def test_builds_use_precompiled_headers(counter, tmp_path, monkeypatch):
    """The text of the headers, a fallback for other flags, is broken here."""
    apart = ("-MAKEFLAGS", "VM_PARALLEL_BUILDS=1")
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path))
    build_library([counter], "counter", [], tmp_path / "first.so", flags=apart)
    (folder,) = (tmp_path / "runtimes").glob("*/")
    compiled = sorted(path.name for path in folder.glob("*.gch"))
    assert compiled == ["headers.h.fast.gch", "headers.h.slow.gch"]
    # What is damaged is found by its digest and made again, but not by this one.
    monkeypatch.setattr(verilator, "entry", lambda name, _make: tmp_path / name)
    for kind in ("fast", "slow"):
        write(folder / f"headers.h.{kind}", "int broken = nonsense;\n")
    build_library([counter], "counter", [], tmp_path / "second.so", flags=apart)
    write(folder / "headers.h.slow.gch", "neither is this compiled")
    with pytest.raises(ToolError, match="nonsense"):
        build_library([counter], "counter", [], tmp_path / "third.so", flags=apart)


def test_broken_harness_is_named_and_leaves_nothing(counter, tmp_path):
    harness = write(tmp_path / "harness.cpp", "int broken = nonsense;\n")
    output = tmp_path / "out" / "libcounter.so"
    with pytest.raises(ToolError, match=r"error: .nonsense. was not declared"):
        build_library([counter], "counter", [harness], output)
    assert [path.name for path in output.parent.iterdir()] == [".libcounter.so.lock"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_may_have_any_character(monkeypatch, tmp_path, name):
    """In the paths of the cache, the sources and the output."""
    folder = tmp_path / FOLDERS[name]
    folder.mkdir(parents=True)
    monkeypatch.setenv("MATLOOM_CACHE", str(folder / "cache"))
    find_verilator.cache_clear()
    source = write(folder / "counter.v", COUNTER)
    (folder / "own").mkdir()
    write(folder / "own" / "own.h", "#define OWN 1\n")
    harness = write(folder / "harness.cpp", '#include "own.h"\n' + dedent(HARNESS))
    flags = ["-CFLAGS", f"-I{folder / 'own'}", "-MAKEFLAGS", "OPT_FAST=-O0"]
    output = folder / "out" / "libcounter.so"
    build_library([source], "counter", [harness], output, flags=flags)
    assert ctypes.CDLL(str(output)).count_to(3, 100) == 300 % 256
    assert lint([source], "counter", ["PROCASSINIT"]) == []
    find_verilator.cache_clear()


def test_lint_lists_unwaived_warnings(tmp_path):
    source = write(
        tmp_path / "narrow.v",
        """
        module narrow(input wire [7:0] a, input wire unused, output wire [3:0] b);
            assign b = a;
        endmodule
        """,
    )
    kinds = [warning.kind for warning in lint([source], "narrow")]
    assert sorted(kinds) == ["UNUSEDSIGNAL", "WIDTHTRUNC"]
    (left,) = lint([source], "narrow", ["UNUSEDSIGNAL"])
    assert left.place.startswith(f"{source}:3:")
    assert str(left).startswith("WIDTHTRUNC: ")


def test_lint_refuses_other_files(tmp_path):
    source = write(tmp_path / "bad.v", "module bad(; endmodule\n")
    with pytest.raises(ToolError, match="syntax error"):
        lint([source], "bad")


def test_new_program_of_the_machine_is_preferred(program):
    path = program("5.036")
    found = find_verilator()
    assert (found.binary, found.version, found.environment) == (path, "5.036", {})
    assert str(found.root) == "/share/root"


def test_old_program_of_the_machine_is_passed_over(program):
    path = program("5.006")
    found = find_verilator()
    assert found.binary != path
    assert found.environment["PATH"].startswith(str(found.binary.parent))
    assert found.environment["VERILATOR_ROOT"] == str(found.root)


def test_missing_compiler_is_named(program, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r"g\+\+ is missing"):
        find_verilator()
