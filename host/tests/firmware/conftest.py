"""The driver compiled for the machine of the tests, with sanitizers and branches counted."""

import json
import os
import random
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from matloom.arch.config import PRESETS
from matloom.device.simulator import build as build_simulator
from support.file_cases import programs
from support.file_edits import FileParts, cut, edit_bytes, edit_structure
from support.firmware_cases import firmware_cases

ROOT = Path(__file__).resolve().parents[3]
FIRMWARE = ROOT / "firmware"
SOURCES = sorted((FIRMWARE / "driver").glob("*.c"))

#: What users' compilers may be told to complain about.
WARNINGS = (
    *("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wcast-qual"),
    *("-Wstrict-prototypes", "-Wmissing-prototypes", "-Werror"),
)
#: Either is for objects and programs: errors seen, or branches counted as they stand in the source.
SANITIZED = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
COUNTED = ("-O0", "--coverage")


def run(command, **options):
    """Run a command; if it fails, fail with its output."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, check=False, **options
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")
    return done.stdout


@dataclass(frozen=True)
class Build:
    """Objects of the driver in a folder, to link programs with."""

    folder: Path
    flags: tuple[str, ...]

    @staticmethod
    def run(command, **options):
        """Return the output of a command; if it fails, fail with its output."""
        return run(command, **options)

    def objects(self):
        """Return the driver's objects, compiled once."""
        found = []
        for source in SOURCES:
            target = self.folder / f"{source.stem}.o"
            if not target.exists():
                flags = (*WARNINGS, *self.flags, "-I", FIRMWARE / "include")
                run(["gcc", *flags, "-c", source, "-o", target], cwd=self.folder)
            found.append(target)
        return found

    def program(self, name, *sources, flags=()):
        """Return a program of sources in firmware/ and the driver."""
        target = self.folder / name
        if not target.exists():
            folders = (FIRMWARE / name for name in ("include", "tests", "examples", "soc"))
            include = [word for folder in folders for word in ("-I", folder)]
            files = [*(FIRMWARE / source for source in sources), *self.objects()]
            command = ["gcc", *WARNINGS, *self.flags, *include, *files, "-o", target, *flags]
            run(command, cwd=self.folder)
        return target

    def engine_test(self):
        """Return the program that tests the calls of an engine."""
        return self.program("test_engine", "tests/test_engine.c", "tests/fake_bus.c")

    def open_files(self, files):
        """Return the result of matloom_program_open for each file.

        Result, section, record, offset.
        """
        program = self.program("load_files", "tests/load_files.c")
        stream = b"".join(struct.pack("<I", len(data)) + data for data in files)
        lines = run([program], input=stream).decode().splitlines()
        assert len(lines) == len(files)
        return [tuple(map(int, line.split())) for line in lines]

    def branches(self):
        """Return the branches of each source of the driver: line and number of executions."""
        counts = {}
        for item in self.objects():
            command = ["gcov", "--branch-probabilities", "--json-format", "--stdout", item]
            for file in json.loads(run(command, cwd=self.folder))["files"]:
                name = Path(file["file"]).name
                counts[name] = [
                    (line["line_number"], branch["count"])
                    for line in file["lines"]
                    for branch in line["branches"]
                ]
        return counts


def _build(tmp_path_factory, name, flags):
    if shutil.which("gcc") is None:
        pytest.skip("the driver's tests need gcc, which is absent")
    return Build(tmp_path_factory.mktemp(name), flags)


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """Return the driver, built with sanitizers of memory and arithmetic."""
    return _build(tmp_path_factory, "sanitized", SANITIZED)


class PipeDevice:
    """A program between two pipes, as link_device.c in firmware/tests describes it."""

    _RESTART = 0xFFFF_FFFF

    def __init__(self, command):
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _ask(self, size, data=b""):
        self._process.stdin.write(struct.pack("<I", size) + data)
        self._process.stdin.flush()
        (size,) = struct.unpack("<I", self._process.stdout.read(4))
        return self._process.stdout.read(size)

    def feed(self, data):
        """Send bytes; return the answer."""
        return self._ask(len(data), data)

    def restart(self):
        """Reset the device; return its output."""
        return self._ask(self._RESTART)

    def close(self):
        """End the program, which must have found no memory error."""
        self._process.communicate()
        assert self._process.returncode == 0


@pytest.fixture
def start_device(build):
    """Return a function that builds and starts a program of firmware/tests."""
    started = []

    def start(name, *sources, arguments=()):
        program = build.program(name, f"tests/{name}.c", *sources)
        started.append(PipeDevice([program, *arguments]))
        return started[-1]

    yield start
    for item in started:
        item.close()


@pytest.fixture(scope="module")
def board(build):
    """Return a function that compiles a program for the simulated board."""
    os.environ["MATLOOM_SIMULATOR"] = str(build_simulator(PRESETS["nano"]))
    # The simulation is no code of the driver's: what it never frees is none of its leaks.
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0"

    def program(name, *sources, flags=()):
        return build.program(name, *sources, "tests/simulator.c", flags=["-ldl", *flags])

    yield program
    del os.environ["MATLOOM_SIMULATOR"], os.environ["ASAN_OPTIONS"]


@pytest.fixture(scope="session")
def counted(tmp_path_factory):
    """Return the driver, built to count branches."""
    return _build(tmp_path_factory, "counted", COUNTED)


@pytest.fixture(scope="session")
def engine_files(tmp_path_factory):
    """Return the Program files that the test of an engine's calls needs, in order."""
    folder = tmp_path_factory.mktemp("programs")
    paths = []
    for name, data in firmware_cases().items():
        paths.append(folder / f"{name}.mloom")
        paths[-1].write_bytes(data)
    return paths


def edits(count, seed=16):
    """Return Program files, most of them broken by edits of bytes, fields or records."""
    draw = random.Random(seed)
    cases = firmware_cases()
    # Most rules are of what few files have: repetitions, variables.
    files = [*programs().values(), cases["product"]]
    files += [cases[name] for name in ("streaming", "remembering") for _ in range(10)]
    parts = [FileParts.of(data) for data in files]
    found = []
    while len(found) < count:
        at, kind = draw.randrange(len(files)), draw.random()
        if kind < 0.02:
            at, word = draw.randrange(8), draw.choice((0, 1, 2**31, 2**32 - 1))
            found.append(files[0][: 4 * at] + struct.pack("<I", word) + files[0][4 * at + 4 :])
        elif kind < 0.05:
            found.append(cut(files[at], draw))
        elif kind < 0.2:
            found.append(edit_bytes(files[at], draw))
        else:
            found.append(edit_structure(parts[at], draw))
    return found


@pytest.fixture(scope="session", name="edits")
def edits_fixture():
    return edits
