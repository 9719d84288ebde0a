"""The driver on other processors, emulated: the same tests, the same results."""

import importlib.util
import struct
import subprocess
import sys

import pytest

from firmware import FIRMWARE

FOUND = all(importlib.util.find_spec(name) for name in ("unicorn", "ziglang"))
pytestmark = [
    # Most of it is the compiler's work on a C library for each processor.
    pytest.mark.slow,
    pytest.mark.skipif(not FOUND, reason="needs unicorn (extra dev) and ziglang (extra firmware)"),
]
#: Programs of firmware/tests: their sources there.
SOURCES = {
    "test_engine": ("test_engine.c", "fake_bus.c"),
    "load_files": ("load_files.c",),
    "fuzz": ("fuzz.c",),
}


@pytest.fixture(scope="module", params=["aarch64", "aarch64_be", "riscv32"])
def run(request, tmp_path_factory):
    """Return a function that runs a program of firmware/tests and returns its output."""
    from emulator import PROCESSORS, Machine

    processor = PROCESSORS[request.param]
    folder = tmp_path_factory.mktemp(request.param)

    def run(name, arguments, files, data=b""):
        machine = Machine(processor, files, data)
        code = machine.run(_compiled(name, processor.target, folder), arguments)
        assert code == 0, machine.output[2].decode()
        return machine.output[1].decode()

    return run


def _compiled(name, target, folder):
    program = folder / name
    if program.exists():
        return program
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-static", "-std=c11"]
    command += ["-O1", "-fno-sanitize=all", "-I", FIRMWARE / "include", "-I", FIRMWARE / "tests"]
    command += [FIRMWARE / "tests" / source for source in SOURCES[name]]
    command += [*sorted((FIRMWARE / "driver").glob("*.c")), "-o", program]
    subprocess.run([str(word) for word in command], check=True)
    return program


@pytest.fixture(scope="module")
def files(engine_files):
    return {path.name: path.read_bytes() for path in engine_files}


def test_calls(run, files):
    assert run("test_engine", list(files), files) == "29 tests\n"


def test_a_failure_is_seen(run, files):
    """The program's checks fail if its files come in another order."""
    with pytest.raises(AssertionError, match=r"test_engine\.c:\d+: .* must be"):
        run("test_engine", [*reversed(files)], files)


def test_same_verdicts_as_here(run, build, edits):
    given = edits(400)
    data = b"".join(struct.pack("<I", len(one)) + one for one in given)
    said = run("load_files", [], {}, data).splitlines()
    assert [tuple(map(int, line.split())) for line in said] == build.open_files(given)


def test_same_mutated_files_as_here(run, build, files, engine_files):
    here = build.program("fuzz", "tests/fuzz.c")
    wanted = build.run([here, "2000", "1", *engine_files]).decode()
    assert run("fuzz", ["2000", "1", *files], files) == wanted
