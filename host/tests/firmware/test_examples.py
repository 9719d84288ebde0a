"""Examples for users' own systems: they compile without warnings, and work as described."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import firmware
from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from matloom.device.simulator import build as build_simulator
from matloom.kernels.interpreter import interpret
from matloom.tools.emit_c import write_c

EXAMPLES = firmware.FIRMWARE / "examples"
CXX_WARNINGS = ("-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
TFLM = EXAMPLES / "tflm"
ZEPHYR = EXAMPLES / "zephyr"
KERNELS = sorted((firmware.FIRMWARE / "kernels").glob("*.c"))
TFLM_INCLUDE = ("-I", firmware.FIRMWARE / "include", "-I", TFLM, "-I", TFLM / "stand_in")


def test_operator_of_tensorflow_lite_micro(build, engine_files):
    """Compile it against our stand-in for its headers, and run it on the fake bus."""
    fake = build.folder / "fake_bus.o"
    include = ("-I", firmware.FIRMWARE / "include", "-I", firmware.FIRMWARE / "tests")
    bus = firmware.FIRMWARE / "tests" / "fake_bus.c"
    build.run(["gcc", "-std=c11", *build.flags, *include, "-c", bus, "-o", fake])
    program = build.folder / "test_tflm"
    sources = [TFLM / "matloom_op.cc", firmware.FIRMWARE / "tests" / "test_tflm.cc"]
    files = [*sources, fake, *build.objects(), "-o", program]
    build.run(["g++", *CXX_WARNINGS, *build.flags, *include, *TFLM_INCLUDE, *files])
    build.run([program, *engine_files[:3]])


@pytest.mark.skipif(not firmware.available(), reason="needs a compiler: extra firmware")
def test_operator_compiles_for_a_small_processor(tmp_path):
    command = [sys.executable, "-m", "ziglang", "c++", *firmware.TARGETS["rv32imc"], *CXX_WARNINGS]
    command += [*firmware.FLAGS, "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"]
    command += [*TFLM_INCLUDE, "-c", TFLM / "matloom_op.cc", "-o", tmp_path / "op.o"]
    subprocess.run([str(word) for word in command], check=True)


@pytest.mark.skipif(not firmware.available(), reason="needs a compiler: extra firmware")
def test_make(tmp_path):
    """Run the whole makefile, for a small processor."""
    sizes = firmware.sections(firmware.application(tmp_path))
    assert sizes[".data"] + sizes[".bss"] <= 512
    (program,) = re.findall(r"file\[(\d+)\]", (tmp_path / "digits.c").read_text())
    assert int(program) < sizes[".rodata"] < int(program) + 1024


def test_program_of_make_on_the_chip(build, tmp_path):
    """Run the same main.c with a simulation of the chip as its board."""
    graph = frontend.load(NETWORK)
    write_c(compile_network(graph, "nano"), tmp_path / "digits.c")
    sources = [EXAMPLES / "make" / "main.c", tmp_path / "digits.c", "tests/simulator.c"]
    program = build.program("make", *sources, *KERNELS, flags=["-I", tmp_path, "-ldl"])
    images = np.random.default_rng(3).integers(-128, 128, (4, 8, 8, 1), np.int8)
    wanted = [interpret(graph, {graph.inputs[0]: image[np.newaxis]}) for image in images]
    simulator = str(build_simulator(PRESETS["nano"]))
    environment = {"MATLOOM_SIMULATOR": simulator, "ASAN_OPTIONS": "detect_leaks=0"}
    said = build.run([program], input=images.tobytes(), env={**os.environ, **environment})
    answers = [int(np.argmax(result[graph.outputs[0]])) for result in wanted]
    assert list(map(int, said.split())) == answers
    assert len(set(answers)) > 1


def test_zephyr_sample(build, tmp_path):
    """Build module and sample against our stand-in for Zephyr, and run on a fake engine."""
    program = compile_network(frontend.load(NETWORK), "nano")
    write_c(program, tmp_path / "digits.c")
    sample = tmp_path / "sample.o"
    folders = (ZEPHYR, ZEPHYR / "stand_in", firmware.FIRMWARE / "include", tmp_path)
    flags = [*build.flags, *firmware.WARNINGS, *(f"-I{folder}" for folder in folders)]
    flags += ["-DCONFIG_MATLOOM_TIMEOUT_MS=50", f"-DDIGEST={program.config.digest}u"]
    main = ZEPHYR / "sample" / "src" / "main.c"
    build.run(["gcc", *flags, "-Dmain=sample", "-Wno-missing-prototypes", "-c", main, "-o", sample])
    sources = [ZEPHYR / "matloom_zephyr.c", tmp_path / "digits.c", "tests/test_zephyr.c"]
    build.run([build.program("test_zephyr", *sources, *KERNELS, sample, flags=flags)])


@pytest.mark.skipif(not firmware.available(), reason="needs a compiler: extra firmware")
def test_zephyr_module_compiles_for_a_small_processor(tmp_path):
    command = [sys.executable, "-m", "ziglang", "cc", *firmware.TARGETS["rv32imc"]]
    command += [*firmware.WARNINGS, *firmware.FLAGS, "-DCONFIG_MATLOOM_TIMEOUT_MS=50"]
    command += ["-I", firmware.FIRMWARE / "include", "-I", ZEPHYR / "stand_in"]
    command += ["-c", ZEPHYR / "matloom_zephyr.c", "-o", tmp_path / "zephyr.o"]
    subprocess.run([str(word) for word in command], check=True)


def test_zephyr_sample_shows_a_four():
    """The sample prints the right digit on a chip."""
    rows = re.findall(r'"([.#]{8})"', (ZEPHYR / "sample" / "src" / "main.c").read_text())
    image = np.array([[127 if mark == "#" else -128 for mark in row] for row in rows], np.int8)
    graph = frontend.load(NETWORK)
    result = interpret(graph, {graph.inputs[0]: image.reshape(1, 8, 8, 1)})
    assert np.argmax(result[graph.outputs[0]]) == 4
