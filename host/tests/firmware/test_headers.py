"""Public headers and a network's: valid C and C++, with macros that describe the tensors."""

import re
import string
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import firmware
from matloom import frontend
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from matloom.ir.attributes import Attributes
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.kernels.interpreter import interpret
from matloom.tools.emit_c import emit_c, write_c

INCLUDE = firmware.FIRMWARE / "include"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
LANGUAGES = (("gcc", "c11"), ("g++", "c++11"), ("g++", "c++20"))


def compiled(folder, text, compiler, standard, *more):
    """Compile a text; link and run it if there is more to link."""
    source = folder / f"source.{'c' if compiler == 'gcc' else 'cc'}"
    source.write_text(text)
    end = [*more, "-o", folder / "program"] if more else ["-c", "-o", folder / "source.o"]
    command = [compiler, f"-std={standard}", *WARNINGS, "-I", INCLUDE, "-I", folder, source, *end]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if not more:
        return ""
    return subprocess.run([folder / "program"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("compiler", "standard"), LANGUAGES)
@pytest.mark.parametrize("header", sorted(path.name for path in INCLUDE.glob("*.h")))
def test_each_header_stands_alone(header, compiler, standard, tmp_path):
    compiled(tmp_path, f'#include "{header}"\n#include "{header}"\n', compiler, standard)
    assert 'extern "C" {' in (INCLUDE / header).read_text()


def network(names=("in", "out"), dtype="int8", shape=(2, 3), scales=(0.05, 0.1), zero=-3):
    """Return a network of one RESHAPE between tensors with given names and scales."""
    made = [
        Tensor(
            name=name,
            shape=shape,
            dtype=dtype,
            quantisation=None
            if scale is None
            else Quantisation(scale=(scale,), zero_point=(zero,)),
        )
        for name, scale in zip(names, scales, strict=True)
    ]
    op = Op.QUANTIZE if scales[0] is not None else Op.RESHAPE
    node = Node(op=op, inputs=(0,), outputs=(1,), attributes=Attributes(), index=0)
    return Graph(
        name="one", inputs=(0,), outputs=(1,), tensors=dict(enumerate(made)), nodes=(node,)
    )


@pytest.mark.fast_cases(8)
@pytest.mark.parametrize(("compiler", "standard"), LANGUAGES)
@pytest.mark.parametrize(
    "names",
    [
        ("in", "out"),
        ("open", "run"),
        ("t", "memory"),
        ("A", "a"),
        ("same", "same"),
        ("*/ int x; /*", "/* // */ \\"),
        ("*" * 3 + "//", "??/"),
        ('"quoted"\n', "naïve\t日本\x01"),
        (string.printable, string.printable[::-1]),
    ],
)
def test_any_name_of_a_tensor_will_do(names, compiler, standard, tmp_path):
    """The macros give back any name unchanged."""
    program = compile_network(network(names), "nano", check="none")
    source, header = emit_c(program, "net")
    (tmp_path / "net.h").write_text(header)
    (tmp_path / "net.c").write_text(source)
    macros = re.findall(r"#define (\w+_NAME) ", header)
    assert len(macros) == 2
    wanted = [name.encode() for name in names]
    checks = "\n".join(
        f'if (memcmp({macro}, "{octal(name)}", sizeof {macro}) != 0) return 1;'
        for macro, name in zip(macros, wanted, strict=True)
    )
    text = f'#include <string.h>\n#include "net.h"\nint main(void) {{\n{checks}\nreturn 0;\n}}\n'
    compiled(tmp_path, text, compiler, standard, "-O1")
    compiled(tmp_path, source, "gcc", "c11")


def octal(data):
    return "".join(f"\\{byte:03o}" for byte in data)


CASES = {
    "int8": {},
    "uint8": {"dtype": "uint8", "zero": 131},
    "int16": {"dtype": "int16", "zero": 0, "shape": (7,)},
    "small scale": {"scales": (3e-35, 3e-35)},
    "whole scale": {"scales": (1.0, 4096.0)},
    "float32": {"dtype": "float32", "scales": (None, None)},
    "int32": {"dtype": "int32", "scales": (None, None), "shape": (1, 2, 3, 4)},
    "bool": {"dtype": "bool", "scales": (None, None)},
}


@pytest.mark.fast_cases(10)
@pytest.mark.parametrize(("compiler", "standard"), LANGUAGES)
@pytest.mark.parametrize("case", CASES)
def test_macros_describe_the_tensors(case, compiler, standard, tmp_path):
    graph = network(**CASES[case])
    write_c(compile_network(graph, "nano", check="none"), tmp_path / "net.c")
    given = graph.tensors[0]
    lines = [
        'printf("%s %d %d", NET_IN_NAME, (int)NET_IN_DTYPE, NET_IN_AXES);',
        "const int shape[] = NET_IN_SHAPE;",
        'for (int axis = 0; axis < NET_IN_AXES; ++axis) printf(" %d", shape[axis]);',
        'printf(" %u %u %d", NET_IN_ELEMENTS, NET_IN_BYTES, sizeof net_in == NET_IN_BYTES);',
    ]
    if given.quantisation is not None:
        lines.append('printf(" %a %d", (double)NET_IN_SCALE, NET_IN_ZERO_POINT);')
    body = "\n".join(lines)
    text = f'#include <stdio.h>\n#include "net.h"\nint main(void) {{ {body} return 0; }}\n'
    # Without its other half: sizes are known at compile time.
    name, dtype, axes, *numbers = compiled(tmp_path, text, compiler, standard, "-O1").split()
    assert (name, int(axes)) == ("in", len(given.shape))
    assert DTYPES[given.dtype] == int(dtype)
    shape, rest = tuple(map(int, numbers[: len(given.shape)])), numbers[len(given.shape) :]
    assert shape == given.shape
    elements = int(np.prod(given.shape))
    assert list(map(int, rest[:3])) == [elements, elements * np.dtype(given.dtype).itemsize, 1]
    if given.quantisation is not None:
        assert np.float32(float.fromhex(rest[3])) == np.float32(given.scale)
        assert int(rest[4]) == given.zero_point
    else:
        assert rest[3:] == []


#: Numbers of types in docs/format.md.
DTYPES = {"bool": 0, "uint8": 1, "int8": 5, "int16": 6, "int32": 7, "float32": 10}


def test_stated_memory_equals_the_drivers(build, tmp_path):
    write_c(compile_network(frontend.load(NETWORK), "nano"), tmp_path / "digits.c")
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "digits.c"\nint main(void) {\n'
        "  if (matloom_program_open(&program, file, sizeof file) != MATLOOM_OK) return 1;\n"
        '  printf("%u %u", matloom_program_memory(&program, false), DIGITS_MEMORY_BYTES);\n'
        "  return 0;\n}\n"
    )
    kernels = sorted((firmware.FIRMWARE / "kernels").glob("*.c"))
    needed, said = build.run([build.program("memory", tmp_path / "main.c", *kernels)]).split()
    assert int(needed) == int(said) > 0


def test_real_numbers_go_both_ways(build, tmp_path):
    """Convert as the header describes, and compare with NumPy."""
    write_c(compile_network(frontend.load(NETWORK), "nano"), tmp_path / "digits.c")
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "digits.h"\nint main(void) {\n'
        "  float reals[DIGITS_IMAGE_ELEMENTS], back[DIGITS_IMAGE_ELEMENTS];\n"
        "  if (fread(reals, sizeof reals, 1, stdin) != 1) return 1;\n"
        "  matloom_quantize(digits_image, reals, DIGITS_IMAGE_DTYPE, DIGITS_IMAGE_ELEMENTS,\n"
        "                   DIGITS_IMAGE_SCALE, DIGITS_IMAGE_ZERO_POINT);\n"
        "  matloom_dequantize(back, digits_image, DIGITS_IMAGE_DTYPE, DIGITS_IMAGE_ELEMENTS,\n"
        "                     (double)DIGITS_IMAGE_SCALE, DIGITS_IMAGE_ZERO_POINT);\n"
        "  fwrite(digits_image, sizeof digits_image, 1, stdout);\n"
        "  fwrite(back, sizeof back, 1, stdout);\n  return 0;\n}\n"
    )
    kernels = sorted((firmware.FIRMWARE / "kernels").glob("*.c"))
    program = build.program("both_ways", tmp_path / "main.c", tmp_path / "digits.c", *kernels)
    graph = frontend.load(NETWORK)
    image = graph.tensors[graph.inputs[0]]
    reals = np.random.default_rng(1).uniform(-0.5, 1.5, 64).astype(np.float32)
    found = build.run([program], input=reals.tobytes())
    numbers = np.round(reals / np.float32(image.scale)) + image.zero_point
    numbers = np.clip(numbers, -128, 127).astype(np.int8)
    assert found[:64] == numbers.tobytes()
    back = np.float32(image.scale) * (numbers.astype(np.float32) - image.zero_point)
    np.testing.assert_allclose(np.frombuffer(found[64:], np.float32), back, rtol=1e-6)


def test_a_tensor_may_be_input_and_output(tmp_path):
    """It is declared once, and documented as both."""
    graph = network()
    graph = replace(graph, outputs=(1, 0))
    _source, header = emit_c(compile_network(graph, "nano", check="none"), "net")
    assert header.count("extern int8_t net_in[6]") == 1
    assert "/* Input 0 and output 1, in: int8, 2 x 3. */" in header
    assert interpret(graph, {0: np.zeros((2, 3), np.int8)})[0].shape == (2, 3)
