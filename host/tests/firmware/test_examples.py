"""Examples for users' own systems: they compile without warnings, and do what they say."""

import subprocess
import sys

import firmware
import pytest

EXAMPLES = firmware.FIRMWARE / "examples"
CXX_WARNINGS = ("-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
TFLM = EXAMPLES / "tflm"
TFLM_INCLUDE = ("-I", firmware.FIRMWARE / "include", "-I", TFLM, "-I", TFLM / "stand_in")


def test_operator_of_tensorflow_lite_micro(build, engine_files):
    """Compiled against our stand-in for its headers, and run on the fake bus."""
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
