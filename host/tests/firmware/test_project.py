"""The folder that `matloom firmware` writes, built by each system whose tools are installed."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

import firmware
from matloom import cli
from matloom.data.digits import NETWORK
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.graph import Op
from matloom.verification.random_operators import RandomOperators

cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
STRICT = "-Wall -Wextra -Wpedantic -Wconversion -Werror"


def matloom(*arguments):
    return CliRunner().invoke(cli.cli, ["firmware", *map(str, arguments)])


def run(*command, cwd=None):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, cwd=cwd
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return the folder of the digits for `nano`, at a path with unusual characters."""
    folder = tmp_path_factory.mktemp("größe é") / "my firmware"
    result = matloom(NETWORK, "--config", "nano", "-o", folder)
    assert result.exit_code == 0, result.output
    return folder


def test_files_to_link_are_printed(written, tmp_path):
    """The printed files equal those in the header and README, and suffice."""
    result = matloom(NETWORK, "--config", "nano", "-o", tmp_path / "out")
    (line,) = re.findall(r"^link: (.*)$", result.output, re.MULTILINE)
    network, *driver = line.split()
    assert network == "src/digits.c"
    header = (written / "src" / "digits.h").read_text()
    assert re.findall(r"(?:driver|kernels)/\w+\.c", header) == [f[4:] for f in driver]
    readme = (written / "README.md").read_text()
    assert re.findall(r"^- `(src/.*)`$", readme, re.MULTILINE) == driver
    main = tmp_path / "main.c"
    main.write_text(
        '#include "digits.h"\nint main(void) {\n  static struct matloom_engine engine;\n'
        "  return digits_run(&engine) == MATLOOM_ERROR_STATE ? 0 : 1;\n}\n"
    )
    sources = [written / file for file in (network, *driver)]
    flags = ["-std=c11", *STRICT.split(), "-I", written / "src"]
    run("gcc", *flags, main, *sources, "-o", tmp_path / "main")
    run(tmp_path / "main")


@cmake
def test_cmake_on_the_machine_itself(written, tmp_path):
    run("cmake", "-S", written, "-B", tmp_path, f"-DCMAKE_C_FLAGS={STRICT}")
    run("cmake", "--build", tmp_path)
    assert "1 tests passed" in run("ctest", "--test-dir", tmp_path).replace("100% ", "1 ")


@cmake
def test_the_host_test_can_fail(written, tmp_path):
    """It notices an engine of another configuration, and a driver that starts nothing."""
    folder = tmp_path / "broken"
    shutil.copytree(written, folder)
    test = folder / "test" / "test_digits.c"
    text = test.read_text()
    test.write_text(re.sub(r"#define CONFIGURATION \w+", "#define CONFIGURATION 1u", text))
    run("cmake", "-S", folder, "-B", tmp_path / "build")
    run("cmake", "--build", tmp_path / "build")
    done = subprocess.run([tmp_path / "build" / "test_digits"], capture_output=True, check=False)
    assert done.returncode == 1
    assert b"open: " in done.stdout


@pytest.mark.fast_cases(1)
@cmake
@pytest.mark.slow
@pytest.mark.parametrize("freestanding", ["OFF", "ON"])
def test_cmake_as_a_part_of_another_project(freestanding, written, tmp_path):
    """As the Pico SDK uses it: a library in a C++ program, without tests."""
    (tmp_path / "app.cc").write_text(
        '#include "digits.h"\nint main() { matloom_engine engine = {};\n'
        "  return digits_run(&engine) == MATLOOM_ERROR_STATE ? 0 : 1; }\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(app C CXX)\n"
        f'add_subdirectory("{written}" matloom)\nadd_executable(app app.cc)\n'
        "target_link_libraries(app matloom)\n"
    )
    build = tmp_path / "build"
    run("cmake", "-S", tmp_path, "-B", build, f"-DMATLOOM_FREESTANDING={freestanding}")
    run("cmake", "--build", build)
    run(build / "app")
    assert not list(build.rglob("test_digits*"))


@cmake
def test_component_of_esp_idf(written, tmp_path):
    """Use a stand-in for the function that registers components, in both passes of ESP-IDF."""
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(app C)\nset(ESP_PLATFORM 1)\n"
        "function(idf_component_register)\n"
        '  cmake_parse_arguments(_ "" "" "SRCS;INCLUDE_DIRS" ${ARGN})\n'
        "  add_library(component STATIC ${__SRCS})\n"
        "  target_include_directories(component PUBLIC ${__INCLUDE_DIRS})\n"
        "endfunction()\n"
        f'add_subdirectory("{written}" matloom)\n'
        'file(WRITE app.c "#include \\"digits.h\\"\\nint main(void) { return 0; }\\n")\n'
        "add_executable(app app.c)\ntarget_link_libraries(app component)\n"
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build")
    run("cmake", "--build", tmp_path / "build")
    # The first pass runs the file as a script, to hear of requirements.
    script = tmp_path / "script.cmake"
    script.write_text(
        "set(ESP_PLATFORM 1)\nfunction(idf_component_register)\n"
        '  message(STATUS "${ARGN}")\nendfunction()\n'
        f'include("{written}/CMakeLists.txt")\n'
    )
    assert "digits.c" in run("cmake", "-P", script)


#: What the sketch needs of Arduino's headers.
ARDUINO = """
#pragma once
#include <stdint.h>
#include <stdio.h>
struct Port {
  void begin(long) {}
  void print(const char *text) { printf("%s", text); }
  void println(const char *text) { printf("%s\\n", text); }
  void println(long number) { printf("%ld\\n", number); }
};
static Port Serial;
static inline void delay(unsigned long) {}
"""


def sketch(written, tmp_path, board):
    """Return the sketch's output in two loops on a board."""
    (tmp_path / "Arduino.h").write_text(ARDUINO)
    (source,) = (written / "examples").rglob("*.ino")
    (tmp_path / "sketch.cc").write_text(
        f'#include "Arduino.h"\n{board}\n#include "{source}"\n'
        "int main() { setup(); loop(); loop(); return 0; }\n"
    )
    include = ["-I", tmp_path, "-I", written / "src", "-I", written / "test"]
    objects = []
    for path in sorted((written / "src").rglob("*.c")):
        objects.append(tmp_path / f"{path.stem}.o")
        # As Arduino compiles: every source by itself, with src alone on the path.
        run(
            "gcc",
            "-std=gnu11",
            "-Wall",
            "-Werror",
            "-I",
            written / "src",
            "-c",
            path,
            "-o",
            objects[-1],
        )
    run(
        "g++",
        "-std=c++11",
        *STRICT.split(),
        *include,
        tmp_path / "sketch.cc",
        *objects,
        "-o",
        tmp_path / "a",
    )
    return run(tmp_path / "a").splitlines()


def test_sketch_says_that_there_is_no_engine(written, tmp_path):
    board = (
        "static uint32_t registers[512];\n#define ENGINE_REGISTERS (uintptr_t)registers\n"
        "#define SHARED_MEMORY 0\n#define SHARED_BUS 0x90000000u"
    )
    (said,) = sketch(written, tmp_path, board)
    assert said.startswith("probe: ")


def test_sketch_runs_the_network(written, tmp_path):
    """Use an engine of registers only instead of the sketch's port."""
    (digest,) = re.findall(r"configuration (0x\w+)", (written / "src" / "digits.h").read_text())
    board = (
        '#include <string.h>\n#include "matloom.h"\n#include "fake_bus.h"\n'
        "static struct fake fake;\n"
        "static matloom_result fake_probe(matloom_engine *engine, const matloom_port *) {\n"
        f"  fake_open(&fake, {digest}u);\n"
        "  const matloom_port port = fake_port(&fake);\n"
        "  return matloom_probe(engine, &port);\n}\n"
        "#define matloom_probe fake_probe\n"
        "#define ENGINE_REGISTERS 0\n#define SHARED_MEMORY (uintptr_t)fake.memory\n"
        "#define SHARED_BUS FAKE_MEMORY_BUS"
    )
    shutil.copy(written / "test" / "fake_bus.c", tmp_path / "fake_bus.c")
    folder = tmp_path / "library"
    shutil.copytree(written, folder)
    shutil.copy(written / "test" / "fake_bus.c", folder / "src" / "fake_bus.c")
    shutil.copy(written / "test" / "fake_bus.h", folder / "src" / "fake_bus.h")
    said = list(map(int, sketch(folder, tmp_path, board)))
    # Probabilities of two runs: SOFTMAX in C made them of what the registers' engine wrote.
    assert len(said) == 20
    assert said[:10] == said[10:]
    assert sum(number + 128 for number in said[:10]) == pytest.approx(256, abs=5)


def test_descriptions_of_the_library(written):
    properties = dict(
        line.split("=", 1) for line in (written / "library.properties").read_text().splitlines()
    )
    described = json.loads((written / "library.json").read_text())
    assert properties["version"] == described["version"] == "0.1.0"
    for header in (*properties["includes"].split(","), *described["headers"]):
        assert (written / "src" / header).is_file()
    assert set(properties) == {
        *("name", "version", "author", "maintainer", "sentence", "paragraph", "category"),
        *("url", "architectures", "includes"),
    }


def test_module_of_zephyr(written, tmp_path):
    """Its paths exist, and its C compiles against the stand-in for Zephyr's headers."""
    module = yaml.safe_load((written / "zephyr" / "module.yml").read_text())["build"]
    assert (written / module["cmake"] / "CMakeLists.txt").is_file()
    assert "config MATLOOM_TIMEOUT_MS" in (written / module["kconfig"]).read_text()
    binding = written / module["settings"]["dts_root"] / "dts/bindings/matloom,engine.yaml"
    assert yaml.safe_load(binding.read_text())["compatible"] == "matloom,engine"
    snippet = re.search(r"```yaml\n(.*?)```", (written / "README.md").read_text(), re.DOTALL)
    (project,) = yaml.safe_load(snippet[1])["manifest"]["projects"]
    assert project["name"] == module.get("name", "matloom")
    stand_in = firmware.FIRMWARE / "examples" / "zephyr" / "stand_in"
    flags = ["-std=c11", *STRICT.split(), "-DCONFIG_MATLOOM_TIMEOUT_MS=50"]
    folders = ["-I", written / "src", "-I", stand_in]
    source = written / "zephyr" / "matloom_zephyr.c"
    run("gcc", *flags, *folders, "-c", source, "-o", tmp_path / "zephyr.o")


@cmake
def test_zephyrs_cmake_names_every_source(written, tmp_path):
    script = tmp_path / "script.cmake"
    script.write_text(
        "set(CONFIG_MATLOOM 1)\n"
        f'set(CMAKE_CURRENT_SOURCE_DIR "{written}/zephyr")\n'
        "function(zephyr_include_directories)\nendfunction()\n"
        "function(zephyr_library)\nendfunction()\n"
        'function(zephyr_library_sources)\n  message(STATUS "${ARGN}")\nendfunction()\n'
        f'include("{written}/zephyr/CMakeLists.txt")\n'
    )
    said = run("cmake", "-P", script)
    every = {path.name for path in (written / "src").rglob("*.c")} | {"matloom_zephyr.c"}
    assert set(re.findall(r"\w+\.c\b", said)) == every


@cmake
@pytest.mark.slow
def test_several_networks_in_one_folder(tmp_path):
    """The second call adds a network, and removes the sources of an older driver."""
    folder = tmp_path / "out"
    assert matloom(NETWORK, "--config", "nano", "-o", folder).exit_code == 0
    (folder / "src" / "driver" / "old.c").write_text("int old;\n")
    (folder / "src" / "mine.c").write_text("int mine;\n")
    result = matloom(NETWORK, "--config", "nano", "--name", "again", "-o", folder)
    assert result.exit_code == 0, result.output
    assert not (folder / "src" / "driver" / "old.c").exists()
    assert (folder / "src" / "mine.c").exists()
    run("cmake", "-S", folder, "-B", tmp_path / "build")
    run("cmake", "--build", tmp_path / "build")
    assert "out of 2" in run("ctest", "--test-dir", tmp_path / "build")


def test_driver_alone(tmp_path):
    result = matloom("-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert not list((tmp_path / "out" / "test").glob("test_*"))
    assert not (tmp_path / "out" / "examples").exists()
    assert "src/driver/run.c" in result.output


def test_a_board_brings_its_engine(tmp_path):
    pytest.importorskip("amaranth_boards", reason="needs the definitions of boards: extra boards")
    from matloom_rtl.board.definition import load_board

    result = matloom(NETWORK, "--board", "ulx3s-85f", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    text = (tmp_path / "out" / "src" / "digits.h").read_text()
    engine = load_board("ulx3s-85f").with_processor().config
    plain = matloom(NETWORK, "--config", engine, "-o", tmp_path / "plain")
    assert plain.exit_code == 0
    digest = re.compile("configuration (0x[0-9a-f]{8})")
    other = (tmp_path / "plain" / "src" / "digits.h").read_text()
    assert digest.findall(text) == digest.findall(other)


def entry(tmp_path, *arguments):
    """Return the exit status and the output of a command line."""
    code = "import sys; from matloom.cli import main; sys.argv[0] = 'matloom'; main()"
    command = [sys.executable, "-c", code, "firmware", *map(str, arguments)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def mistakes(tmp_path_factory):
    """Return wrong arguments, each with words that the message must contain."""
    tmp_path = tmp_path_factory.mktemp("mistakes")
    unsupported = tmp_path / "mul.tflite"
    unsupported.write_bytes(write_tflite(RandomOperators([11, 7], "uint8").make(Op.MUL)))
    (tmp_path / "file").write_text("in the way")
    program = tmp_path / "digits.mloom"
    arguments = ["compile", str(NETWORK), "--config", "nano", "-o", str(program)]
    assert CliRunner().invoke(cli.cli, arguments).exit_code == 0
    nano = ("--config", "nano")
    return {
        "unknown board": ((NETWORK, "--board", "nosuch", "-o", "out"), ["ulx3s-85f", "nosuch"]),
        "no kernel": ((unsupported, *nano, "-o", "out"), ["MUL from uint8 to uint8"]),
        "unknown configuration": ((NETWORK, "--config", "nanoo", "-o", "out"), ["nanoo"]),
        "wrong configuration": ((program, "--config", "small", "-o", "out"), ["configuration"]),
        "no such network": (("absent.tflite", "-o", "out"), ["absent.tflite"]),
        "a file in the way": ((NETWORK, *nano, "-o", tmp_path / "file"), ["file"]),
        "a bad name": ((NETWORK, *nano, "--name", "a-b", "-o", "out"), ["a-b", "letter"]),
        "both": ((NETWORK, *nano, "--board", "ulx3s-85f", "-o", "out"), ["--board", "--config"]),
        "a name of nothing": (("--name", "x", "-o", "out"), ["--name", "network"]),
    }


KINDS = (
    *("unknown board", "no kernel", "unknown configuration", "wrong configuration"),
    *("no such network", "a file in the way", "a bad name", "both", "a name of nothing"),
)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_mistake_is_one_sentence(kind, mistakes, tmp_path):
    """The command prints one message and writes nothing."""
    arguments, words = mistakes[kind]
    status, said = entry(tmp_path, *arguments)
    assert status == 2, said
    assert "Traceback" not in said
    assert all(word in said for word in words), said
    assert not (tmp_path / "out").exists()


def test_no_space(tmp_path):
    """A limit on file sizes simulates a full disk: the message names the file."""
    code = (
        "import resource, signal, sys\nfrom matloom.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n"
        "sys.argv = ['matloom', 'firmware', '-o', 'out']\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "out/" in done.stderr
    assert "too large" in done.stderr.lower()


def test_the_source_has_the_program(written):
    """The C source contains the same bytes as a Program file."""
    text = (written / "src" / "digits.c").read_text()
    body = re.search(r"file\[(\d+)\] = \{(.*?)\}", text, re.DOTALL)
    data = np.array([int(word) for word in body[2].split(",") if word.strip()], np.uint8)
    assert len(data) == int(body[1])
    assert data[:8].tobytes() == b"MLOOMPRG"
