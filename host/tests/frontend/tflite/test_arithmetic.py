"""Multiply-accumulates of operators from the file, compared with counts by hand."""

import pytest

from matloom.data.digits import NETWORK
from matloom.frontend.tflite.arithmetic import file_macs
from matloom.runtime import compile
from matloom.tools.explain import explain

NAMES = [
    *("CONV_2D", "CONV_2D", "CONV_2D", "ADD", "CONV_2D"),
    *("AVERAGE_POOL_2D", "RESHAPE", "FULLY_CONNECTED", "SOFTMAX"),
]


def test_the_digits():
    """8x8 images: 1 to 16 channels by 3x3, twice 16 to 16, 16 to 32 at stride 2, 32 to 10."""
    conv = 64 * 16 * 9
    counts = [conv, 16 * conv, 16 * conv, 0, 16 * 32 * 9 * 16, 0, 0, 320, 0]
    content = NETWORK.read_bytes()
    assert file_macs(content, NAMES, ()) == counts
    assert file_macs(content, [NAMES[4], NAMES[7]], (4, 7)) == [counts[4], counts[7]]
    for names, places in ((NAMES[:4], ()), (NAMES[:1], (4, 7))):
        with pytest.raises(ValueError, match="argument 2 is longer"):
            file_macs(content, names, places)


def test_an_lstm(wild):
    """28 steps, and 4 gates of 20 units, each with 28 inputs and all units."""
    path = wild / "models" / "tflm" / "trained_lstm_int8.tflite"
    count = 28 * 4 * 20 * (28 + 20)
    assert file_macs(path.read_bytes(), ["UNIDIRECTIONAL_SEQUENCE_LSTM"], (0,)) == [count]
    program = compile(path, "reference", check="none")
    assert program.macs == program.engine_macs == count + 560 * 10
    lines = [item for item in explain(program) if isinstance(item, str)]
    assert f"{program.macs:,} MACs, {program.engine_macs / program.macs:.1%} of them" in str(lines)
