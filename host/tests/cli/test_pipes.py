"""A reader that closes its pipe early, as `head` does, is no error and loses no other output."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MATLOOM = Path(sys.executable).with_name("matloom")


def run(words, stream):
    """Run a command of which nobody reads a stream; return its exit status and the other one."""
    reader, writer = os.pipe()
    os.close(reader)
    other = {"stdout": "stderr", "stderr": "stdout"}[stream]
    done = subprocess.run(
        [MATLOOM, *words], check=False, **{stream: writer, other: subprocess.PIPE}, text=True
    )
    os.close(writer)
    return done.returncode, getattr(done, other)


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("explain", "--help"),
        ("explain", "digits", "--config", "nano"),
        ("disasm", "digits", "--config", "nano"),
        ("compile", "digits", "--stop-after", "emit", "--config", "nano"),
        ("demo", "--device", "model"),
    ],
)
def test_nobody_reads_the_output(words):
    assert run(words, "stdout") == (0, "")


def test_nobody_reads_the_messages():
    status, text = run(("explain", "digits", "--config", "nano"), "stderr")
    assert status == 0
    assert "operators: " in text
    status, _text = run(("explain", "missing.tflite"), "stderr")
    assert status
