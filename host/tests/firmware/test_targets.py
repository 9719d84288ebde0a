"""The driver compiles for all target processors, and so does the example of its page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import firmware
from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from matloom.device.simulator import build as build_simulator
from matloom.kernels.interpreter import interpret
from matloom.tools.firmware_project import network_files, project_files, write_files

PAGE = firmware.ROOT / "docs" / "firmware.md"

#: Bytes of code that the driver may take: with all rules of files where instructions may be short.
MOST_CODE = 6144


def blocks():
    """Return the files of the page by name."""
    found = re.findall(r"^```(?:c|asm)\n/\* (\S+) \*/\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    return dict(found)


@pytest.mark.fast_cases(1)
@pytest.mark.skipif(not firmware.available(), reason="needs a compiler: extra firmware")
@pytest.mark.parametrize("target", firmware.TARGETS)
def test_links_without_a_library(target, tmp_path):
    """No warnings, for 32 and 64 bits, and no global variables."""
    sizes = firmware.sections(firmware.link(target, tmp_path, linked=target != "rv32imc"))
    assert sizes[".text"] <= MOST_CODE
    assert sizes.get(".data", 0) + sizes.get(".bss", 0) < 4 * 4096 + 512


@pytest.mark.skipif(not firmware.available(), reason="needs a compiler: extra firmware")
def test_linux_access_compiles_for_a_64_bit_processor(tmp_path):
    source = firmware.FIRMWARE / "support" / "linux_uio.c"
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl"]
    command += [*firmware.WARNINGS, "-I", firmware.FIRMWARE / "include", "-c", source]
    subprocess.run([*map(str, command), "-o", tmp_path / "uio.o"], check=True)


@pytest.fixture
def example(tmp_path):
    """Return a folder with the page's files and the network that they link."""
    for name, text in blocks().items():
        (tmp_path / name).write_text(text)
    program = compile_network(frontend.load(NETWORK), "nano")
    (tmp_path / "digits.mloom").write_bytes(program.to_bytes())
    return tmp_path


def test_example_runs_on_the_chip(example):
    folder = firmware.FIRMWARE
    sources = [*(folder / "driver").glob("*.c"), folder / "tests" / "simulator.c"]
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wl,--fatal-warnings"]
    command += ["-I", folder / "include", "-I", folder / "examples"]
    command += ["main.c", "network.S", *sources, "-ldl", "-o", "digits"]
    subprocess.run([str(word) for word in command], cwd=example, check=True)

    graph = frontend.load(NETWORK)
    images = np.random.default_rng(2).integers(-128, 128, (4, 8, 8, 1), np.int8)
    wanted = [interpret(graph, {graph.inputs[0]: image[np.newaxis]}) for image in images]
    answers = [int(np.argmax(result[graph.outputs[0]])) for result in wanted]
    environment = {**os.environ, "MATLOOM_SIMULATOR": str(build_simulator(PRESETS["nano"]))}
    said = subprocess.run(
        [example / "digits"],
        input=images.tobytes(),
        stdout=subprocess.PIPE,
        env=environment,
        check=True,
    )
    assert list(map(int, said.stdout.split())) == answers


#: The page's compiler for a small processor, and the machine's own.
ZIG = "python -m ziglang cc -target riscv32-freestanding-none -mcpu=generic_rv32+m+relax"
GCC = "gcc -no-pie -fno-stack-protector -Wa,--noexecstack"


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("compiler", [ZIG, GCC])
def test_example_compiles_for_its_board(compiler, example):
    """The page's command works; the board provides input and output."""
    if compiler == ZIG and not firmware.available():
        pytest.skip("needs a compiler: extra firmware")
    (line,) = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    write_files(example / "firmware", project_files())
    (example / "world.c").write_text(
        '#include "board.h"\n'
        "bool board_input(int8_t* image) { return image[0] != 0; }\n"
        "void board_say(int number) { (void)number; }\n"
        "int main(void);\nvoid _start(void);\nvoid _start(void) { (void)main(); }\n"
    )
    assert ZIG in line
    line = line.replace(ZIG, compiler).replace("main.c", "-nostdlib world.c main.c")
    # The page's `python` is that of the environment which has the compiler.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    line, environment = line.replace("\\\n", " "), {**os.environ, "PATH": path}
    subprocess.run(line, shell=True, cwd=example, check=True, env=environment)


def test_first_program_of_the_page_links(example):
    """It needs only the folder that `matloom firmware` writes."""
    program = compile_network(frontend.load(NETWORK), "nano")
    folder = example / "firmware"
    write_files(folder, project_files() | network_files(program, "digits"))
    sources = [*folder.glob("src/*.c"), *folder.glob("src/*/*.c")]
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Wno-int-to-pointer-cast", "-Werror"]
    command += ["-I", folder / "src", "app.c", *sources, "-o", "app"]
    subprocess.run([str(word) for word in command], cwd=example, check=True)
