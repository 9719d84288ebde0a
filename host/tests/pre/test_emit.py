"""Preprocessing in C gives the bits of the NumPy definition."""

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import matloom
from matloom.data.digits import NETWORK
from matloom.pre import Image, LogMel, Mfcc, MicroFrontend, attach
from matloom.program import Quantised, TensorInfo
from matloom.toolchain.firmware import FIRMWARE
from matloom.tools.emit_c import emit_c
from matloom.tools.emit_preprocessing import preprocessing_declarations, preprocessing_source

KERNELS = ("image", "mel", "micro_frontend", "conversion")
SHORT = {"samples": 1600, "window": 480, "step": 160}
STAGES = {
    "up": (Image(size=(9, 7), source=(5, 6), mean=127.5, scale=1 / 128), "int8"),
    "down": (
        Image(size=(5, 8), source=(31, 45), crop="centre", resize="area", channels="bgr"),
        "uint8",
    ),
    "planes": (
        Image(size=(3, 4), source=(17, 9), crop=(2, 1, 11, 7), layout="chw", resize="antialias"),
        "float32",
    ),
    "grey": (Image(size=(4, 4), source=(9, 12), channels="grey"), "int8"),
    "grey_words": (Image(size=(1, 1), source=(1, 3), channels="grey"), "int16"),
    "logarithms": (LogMel(**SHORT), "float32"),
    "mlperf": (LogMel(**SHORT, coefficients=10, peak=True), "int8"),
    "mfcc": (Mfcc(samples=1000, window=400, step=77, mels=23), "int16"),
    "micro": (MicroFrontend(**SHORT), "float32"),
    "micro_256": (MicroFrontend(samples=900, window=240, step=80, mels=16), "int8"),
    "micro_plain": (MicroFrontend(samples=1600, window=1000, pcan=False), "int16"),
}
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "matloom_kernels.h"
#include "matloom_pre.h"
DECLARED
LINES
#define RUN(number, name, ...) \\
  case number: \\
    while (fread(raw, size, 1, stdin) == 1) { \\
      name##_from(__VA_ARGS__); \\
      fwrite(name, sizeof name, 1, stdout); \\
    } \\
    break;
int main(int count, char** words) {
  static int16_t raw[40000];
  if (count < 4) return 1;
  const size_t size = (size_t)atoi(words[2]);
  const uint32_t depth = (uint32_t)atoi(words[3]);
  (void)depth;
  switch (atoi(words[1])) {
    CASES
    default: return 2;
  }
  return 0;
}
"""


def info_of(name):
    """Return a network input that follows a stage of the table."""
    stage, dtype = STAGES[name]
    zero_point = 7 if dtype == "uint8" else 0
    scale = None if dtype == "float32" else Quantised(scale=0.03, zero_point=zero_point)
    return TensorInfo(name=name, shape=(1, *stage.shape), dtype=dtype, quantised=scale)


@pytest.fixture(scope="module")
def digits():
    return matloom.compile(NETWORK, "nano", check="none")


@pytest.fixture(scope="module")
def compiled(digits, tmp_path_factory):
    """Return a program with the C code of all stages."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("pre")
    inputs = tuple(map(info_of, STAGES))
    program = attach(
        replace(digits, inputs=inputs), {name: stage for name, (stage, _) in STAGES.items()}
    )
    buffers = {name: f"net_{name}" for name in STAGES}
    declared, cases = [], []
    for number, info in enumerate(inputs):
        kind = {"float32": "float"}.get(info.dtype, f"{info.dtype}_t")
        declared.append(f"static {kind} net_{info.name}[{int(np.prod(info.shape))}];")
        given = "(const uint8_t*)raw, depth" if is_image(info.name) else "raw"
        cases.append(f"RUN({number}, net_{info.name}, {given})")
    declared += preprocessing_declarations(program, buffers)
    text = MAIN.replace("DECLARED", "\n".join(declared)).replace("CASES", "\n".join(cases))
    text = text.replace("LINES", "\n".join(preprocessing_source(program, buffers)))
    (folder / "main.c").write_text(text)
    flags = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off")
    sources = [FIRMWARE / "kernels" / f"{name}.c" for name in KERNELS]
    command = ["gcc", *flags, "-fsanitize=undefined", "-I", FIRMWARE / "include", *sources]
    subprocess.run([*command, "main.c", "-o", "a.out"], cwd=folder, check=True)
    return folder / "a.out"


def is_image(name):
    return isinstance(STAGES[name][0], Image)


def raws_of(stage):
    """Return raw samples: random, at the ends of their type, and constant."""
    generator = np.random.default_rng(0)
    given = [stage.random(generator) for _ in range(3)]
    if isinstance(stage, Image):
        return [*given, np.zeros_like(given[0]), np.full_like(given[0], 255)]
    time = np.arange(stage.samples)
    tone = (9000 * np.sin(time * 0.3)).astype(np.int16)
    square = np.where(time % 50 < 25, -(2**15), 2**15 - 1).astype(np.int16)
    quiet = generator.integers(-1, 2, stage.samples).astype(np.int16)
    least = np.full_like(tone, -(2**15))
    return [*given, np.zeros_like(tone), tone, square, quiet, least, -(least + 1)]


def outputs_of(compiled, name, raws):
    """Return the emitted C's outputs for raw samples."""
    depth = raws[0].shape[-1]
    words = (list(STAGES).index(name), raws[0].nbytes, depth)
    data = b"".join(raw.tobytes() for raw in raws)
    done = subprocess.run([compiled, *map(str, words)], input=data, capture_output=True, check=True)
    assert not done.stderr
    info = info_of(name)
    return np.frombuffer(done.stdout, info.dtype).reshape(len(raws), *info.shape[1:])


@pytest.mark.parametrize("name", STAGES)
def test_c_gives_the_bits_of_the_definition(compiled, name):
    raws = raws_of(STAGES[name][0])
    made = outputs_of(compiled, name, raws)
    expected = STAGES[name][0].batch(raws, info_of(name))
    assert np.array_equal(made.view(np.uint8), expected.view(np.uint8))
    assert len(np.unique(expected)) > 1


def test_grey_takes_colours_in_c_too(compiled):
    raws = [np.random.default_rng(0).integers(0, 256, (9, 12, 3), np.uint8)]
    made = outputs_of(compiled, "grey", raws)
    assert np.array_equal(made, STAGES["grey"][0].batch(raws, info_of("grey")))


def test_networks_in_c_have_the_function(digits):
    stage = Image(size=(8, 8), source=(9, 12), channels="grey")
    source, header = emit_c(attach(digits, stage), "net")
    assert "void net_image_from(const uint8_t* pixels, uint32_t depth);" in header
    assert "Makes net_image of pixels, 9 x 12" in header
    assert "matloom_image(net_image, pixels, depth, &net_image_how);" in source
    plain, _ = emit_c(digits, "net")
    assert "matloom_pre" not in plain


def test_images_of_any_size_are_refused_in_c(digits):
    stage = Image(size=(8, 8), channels="grey")
    with pytest.raises(ValueError, match="input 'image' must have a source for C"):
        emit_c(attach(digits, stage), "net")
