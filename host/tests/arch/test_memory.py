"""Memory: the message of each rule, files, names and the time of a beat."""

from fractions import Fraction

import pytest

from matloom.arch.memory import (
    BOARD_MEMORIES,
    MEMORIES,
    REFERENCE_MEMORY,
    InvalidMemoryError,
    Memory,
    load_memory,
)

RULES = [
    ({"bytes_per_cycle": 0}, "bytes_per_cycle must be 1/256 to 32, not 0"),
    ({"bytes_per_cycle": 33}, "bytes_per_cycle must be 1/256 to 32, not 33"),
    ({"bytes_per_cycle": "1/257"}, "bytes_per_cycle must be 1/256 to 32, not 1/257"),
    ({"bytes_per_cycle": "256/257"}, "must have a denominator of at most 256, not 256/257"),
    ({"bytes_per_cycle": "1/0"}, "must be a number or a fraction such as '8/3', not '1/0'"),
    ({"bytes_per_cycle": "fast"}, "must be a number or a fraction such as '8/3', not 'fast'"),
    ({"bytes_per_cycle": True}, "must be a number or a fraction such as '8/3', not True"),
    ({"bytes_per_cycle": None}, "must be a number or a fraction such as '8/3', not None"),
    ({"read_latency": 0}, "read_latency must be 1 to 4096, not 0"),
    ({"read_latency": 4097}, "read_latency must be 1 to 4096, not 4097"),
    ({"read_latency": 8.0}, "read_latency must be an integer, not 8.0"),
    ({"write_latency": 0}, "write_latency must be 1 to 4096, not 0"),
    ({"outstanding": 65}, "outstanding must be 1 to 64, not 65"),
    ({"row_bytes": 96}, "row_bytes must be 0 or a power of two from 64 on, not 96"),
    ({"row_bytes": 32}, "row_bytes must be 0 or a power of two from 64 on, not 32"),
    ({"row_bytes": 1 << 17}, "row_bytes must be 0 to 65536, not 131072"),
    ({"row_miss_cycles": 9}, "row_miss_cycles must be 0 without row_bytes, not 9"),
    ({"row_bytes": 64, "row_miss_cycles": -1}, "row_miss_cycles must be 0 to 4096, not -1"),
    ({"read_latency": True}, "read_latency must be an integer, not True"),
]


@pytest.mark.parametrize(("values", "sentence"), RULES)
def test_rules(values, sentence):
    with pytest.raises(InvalidMemoryError, match=sentence):
        Memory(**values)


@pytest.mark.parametrize("given", [2.5, "2.5", "5/2", Fraction(5, 2)])
def test_a_rate_is_exact_however_it_is_given(given):
    memory = Memory(bytes_per_cycle=given)
    assert memory.rate == Fraction(5, 2)
    assert Memory.from_json(memory.to_json()) == memory


@pytest.mark.parametrize("name", MEMORIES)
def test_names_and_files(name, tmp_path):
    memory = load_memory(name)
    path = tmp_path / "memory.json"
    path.write_text(memory.to_json())
    assert load_memory(path) == load_memory(str(path)) == memory
    assert load_memory(memory) is memory
    assert memory.name == name


@pytest.mark.parametrize(("board", "name"), BOARD_MEMORIES.items())
def test_the_memory_of_a_board_by_its_name(board, name):
    assert load_memory(board) is MEMORIES[name]


def test_only_the_reference_library_is_used():
    assert load_memory(None) is REFERENCE_MEMORY


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "a memory must be JSON: "),
        ("[]", r"a memory must be a JSON object, not \[\]"),
        ('{"speed": 1}', "a field of a memory must be one of bytes_per_cycle, .*, not 'speed'"),
        ('{"outstanding": 0}', "outstanding must be 1 to 64, not 0"),
    ],
)
def test_wrong_files(text, sentence):
    with pytest.raises(InvalidMemoryError, match=sentence):
        Memory.from_json(text)


def test_invalid_memories(tmp_path):
    with pytest.raises(
        InvalidMemoryError, match=r"memory must be one of reference, .*, not 'ddr9'"
    ):
        load_memory("ddr9")
    path = tmp_path / "memory.json"
    path.write_bytes(b"\xff")
    with pytest.raises(InvalidMemoryError, match="memory must be a JSON file in UTF-8"):
        load_memory(path)
    with pytest.raises(TypeError, match="memory must be a name, a JSON file or a Memory, not 8"):
        load_memory(8)


@pytest.mark.parametrize(
    ("rate", "bus_bytes", "cycles"),
    [(8, 8, 1), (32, 4, 1), (1, 8, 8), ("8/3", 8, 3), (6, 8, "4/3")],
)
def test_a_beat_takes_as_long_as_its_bytes_or_a_cycle(rate, bus_bytes, cycles):
    assert Memory(bytes_per_cycle=rate).beat_cycles(bus_bytes) == Fraction(cycles)


def test_a_missing_file_is_said_to_be_missing():
    with pytest.raises(InvalidMemoryError, match=r"cannot read no\.json: no such file"):
        load_memory("no.json")
