"""Generated files are up to date, and the header is valid C."""

import shutil
import subprocess

import pytest

from matloom.arch.generate.files import FILES, ROOT
from matloom.arch.generate.sentences import one_sentence_per_line


@pytest.mark.parametrize("name", FILES)
def test_fresh(name):
    assert (ROOT / name).read_text() == FILES[name](), "run python -m matloom.arch.generate"


@pytest.mark.parametrize("name", ["matloom_regs.h", "matloom_soc.h"])
def test_header_compiles(name):
    compiler = shutil.which("gcc") or shutil.which("g++")
    header = ROOT / "firmware" / "include" / name
    command = [compiler, "-x", "c", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    done = subprocess.run([*command, header], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One.\nTwo is\nlonger. Three.", "One.\nTwo is longer.\nThree."),
        ("- An item. More of\n  it.\n- Next.", "- An item.\n  More of it.\n- Next."),
        ("By E. Alpaydin\net al.", "By E. Alpaydin et al."),
        ("| a. B | c |\n| --- | --- |", "| a. B | c |\n| --- | --- |"),
        ("```sh\none. Two\nthree\n```\nA\nb.", "```sh\none. Two\nthree\n```\nA b."),
    ],
)
def test_pages_have_a_line_for_each_sentence(text, expected):
    assert one_sentence_per_line(text) == expected
