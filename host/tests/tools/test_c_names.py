"""Identifiers in C: every file and tensor gets one, unique even without case."""

import string
from dataclasses import replace
from pathlib import Path

import pytest

from matloom import frontend
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from matloom.program.records import TensorInfo
from matloom.tools.c_names import buffer_names, network_name, require_network_name


@pytest.fixture(scope="module")
def program():
    return compile_network(frontend.load(NETWORK), "nano", check="none")


def named(program, names):
    infos = tuple(TensorInfo(name=name, shape=(1,), dtype="int8") for name in names)
    return replace(program, tensors=infos)


@pytest.mark.parametrize(
    "names",
    [
        ("a_b", "a.b", "a b", "A_B", "a_b_2", "a_b_3", "a_b_1"),
        ("a.b_2", "a_b", "a.b"),
        ("open", "run", "t", "Open", "RUN", "T"),
        ("", "_", "tensor_0", "tensor_1", "ß", "日本"),
        ("serving_default_x:0", "StatefulPartitionedCall:0", "StatefulPartitionedCall:1"),
        tuple(string.printable),
    ],
)
def test_no_two_buffers_are_equal(program, names):
    found = buffer_names(named(program, names), "net")
    words = list(found.values())
    assert list(found) == list(names)
    assert len({word.upper() for word in words}) == len(names)
    assert all(word.isascii() and word.isidentifier() for word in words)
    assert not {"net_open", "net_run", "net_t"} & set(words)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("digits.tflite", "digits"),
        ("my-net v2.tflite", "my_net_v2"),
        ("8bit.tflite", "net_8bit"),
        ("string.tflite", "net_string"),
        ("Matloom.tflite", "net_Matloom"),
        ("käse.mloom", "k_se"),
        ("---.tflite", "network"),
    ],
)
def test_a_file_gives_its_network_a_name(file, name):
    assert network_name(Path(file)) == name
    assert require_network_name(name) == name


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("my-net", "be a letter, then letters, digits and _"),
        ("2", "be a letter"),
        ("größe", "be a letter"),
        ("math", "not be that of a header of the C library"),
        ("matloom_x", "not begin with matloom"),
    ],
)
def test_other_names_are_refused(name, rule):
    with pytest.raises(ValueError, match=f"in C must {rule}.*, not '{name}'"):
        require_network_name(name)
