"""The text form of a graph."""

from importlib import resources

from matloom import frontend
from matloom.ir.text import to_text


def test_text_of_the_digit_network():
    content = resources.files("matloom.data").joinpath("digits.tflite").read_bytes()
    lines = to_text(frontend.load(content)).splitlines()
    assert lines[0] == "graph model"
    assert lines[1] == "input %0:int8[1x8x8x1]{0.00392157, -128} 'image'"
    assert lines[2].startswith("output %20:int8[1x10]{0.00390625, -128}")
    assert lines[7].endswith("stride=2x2 dilation=1x1 padding=0x1x0x1 activation=RELU")
    assert lines[-1].endswith("= SOFTMAX(%19:int8[1x10]{0.0282569, -1}) beta=1.0")
    assert len(lines) == 12
