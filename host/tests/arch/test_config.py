"""Config: the message of each rule, files, digests and presets."""

import dataclasses
import json

import pytest

from matloom.arch.config import ADDED_FIELDS, PRESETS, Config, ConfigError, load_config

RULES = [
    ({"rows": 2}, "rows must be 4 to 64, not 2"),
    ({"rows": 6}, "rows must be a multiple of 4, not 6"),
    ({"columns": 68}, "columns must be 4 to 64, not 68"),
    ({"columns": 10}, "columns must be a multiple of 4, not 10"),
    ({"broadcast_group": 3}, r"broadcast_group must be a divisor of columns \(16\), not 3"),
    ({"weight_rows": 3}, r"weight_rows must be a divisor of rows \(16\), not 3"),
    ({"lanes": 5}, r"lanes must be a divisor of columns \(16\), not 5"),
    ({"tables": 3}, "tables must be 0, 1 or 2, not 3"),
    ({"time_limit": 2}, "time_limit must be 0 or 1, not 2"),
    ({"parity": -1}, "parity must be 0 or 1, not -1"),
    ({"element_stride": 2}, "element_stride must be 0 or 1, not 2"),
    ({"zero_points": 2}, "zero_points must be 0 or 1, not 2"),
    ({"pooling": 2}, "pooling must be 0 or 1, not 2"),
    ({"channel_tables": 2}, "channel_tables must be 0 or 1, not 2"),
    ({"curves": 2}, "curves must be 0 or 1, not 2"),
    ({"transposed_weights": 2}, "transposed_weights must be 0 or 1, not 2"),
    (
        {"transposed_weights": 1, "rows": 8},
        "transposed_weights must be 0 unless rows and columns are equal, not 1",
    ),
    ({"result_sums": 2}, "result_sums must be 0 or 1, not 2"),
    (
        {"zero_points": 1, "mac_modes": ("i8xi8", "i8xi4")},
        "zero_points must be 0 with modes other than i8xi8, not 1",
    ),
    ({"softmax": 3}, r"softmax must be 0 or a divisor of lanes \(16\), not 3"),
    ({"products": -1}, "products must be 0 to 4, not -1"),
    ({"windows": 3}, "windows must be 0, 1 or 2, not 3"),
    ({"paired_windows": 2}, "paired_windows must be 0 or 1, not 2"),
    ({"maximum": 2}, "maximum must be 0 or 1, not 2"),
    ({"mac_modes": ()}, "mac_modes must name at least one mode"),
    ({"mac_modes": ("i9xi9",)}, "mac_modes must be one of .*, not 'i9xi9'"),
    ({"mac_modes": ("bf16",)}, "mac_modes must name i8xi8, not"),
    ({"mac_modes": ("i8xi8", "i8xi4", "bf16")}, "mac_modes must not name modes of 4 bits and of"),
    ({"mac_modes": ("i8xi8", "bf16"), "float_rows": 3}, "float_rows must be a power of two up to"),
    ({"mac_modes": ("i8xi8", "bf16"), "rows": 4}, r"up to rows / 2 \(2\), not 4"),
    ({"mac_modes": ("i8xi8", "bf16"), "weight_rows": 1}, "weight_rows must be even with a"),
    ({"mac_modes": ("i8xi8", "i8xi8")}, "mac_modes must name each mode once"),
    ({"mac_modes": ("i8xi4",)}, "mac_modes must name i8xi8, not"),
    ({"spad_banks": 0}, "spad_banks must be 1 to 16, not 0"),
    ({"spad_bytes": 100000}, "spad_bytes must be a power of two times spad_banks"),
    ({"spad_bytes": 5 * 512}, "spad_bytes must be at least 16 lines of 64 bytes per bank"),
    ({"spad_bytes": 2**25, "spad_banks": 1}, "spad_bytes must be at most 16 MiB"),
    ({"acc_bytes": 1000}, "acc_bytes must be a power of two times 4"),
    ({"acc_bytes": 512}, "acc_bytes must be 16 to 32768 entries"),
    ({"bus_bits": 48}, "bus_bits must be 32, 64, 128 or 256, not 48"),
    ({"outstanding": 0}, "outstanding must be 1 to 32, not 0"),
    ({"burst_beats": 3}, "burst_beats must be a power of two from 1 to 256, not 3"),
    ({"burst_beats": 256, "bus_bits": 256}, "burst_beats must be at most 4096 bytes"),
    ({"queue_depth": 0}, "queue_depth must be 1 to 32, not 0"),
    ({"timestamps": 3}, "timestamps must be 0, or a power of two from 2 to 256, not 3"),
    ({"counters": 3}, "counters must be 0 to 2, not 3"),
    ({"counters": 0}, "timestamps must be 0 without `counters`, not 64"),
    ({"address_first": 2}, "address_first must be 0 or 1, not 2"),
    ({"checks": 2}, "checks must be 0 or 1, not 2"),
    ({"rows": "16"}, "rows must be an integer, not '16'"),
    ({"lanes": True}, "lanes must be an integer, not True"),
]


@pytest.mark.parametrize(("values", "sentence"), RULES)
def test_rules(values, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Config(**values)


@pytest.mark.parametrize("name", PRESETS)
def test_json_round_trip(name):
    config = PRESETS[name]
    assert Config.from_json(config.to_json()) == config
    assert load_config(name) is config


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "a configuration must be JSON"),
        ("[1]", "a configuration must be a JSON object"),
        ('{"row": 4}', "a field of a configuration must be one of .*, not 'row'"),
        ('{"mac_modes": "i8xi8"}', "mac_modes must be a list"),
    ],
)
def test_bad_files(tmp_path, text, sentence):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        load_config(path)


def test_no_such_preset():
    with pytest.raises(ConfigError, match=r"config must be one of nano, .*, not 'huge'"):
        load_config("huge")


def test_every_field_changes_the_digest():
    other = {
        "rows": 8,
        "columns": 32,
        "broadcast_group": 8,
        "float_rows": 2,
        "weight_rows": 8,
        "spad_bytes": 640 * 1024,
        "spad_banks": 10,
        "acc_bytes": 128 * 1024,
        "lanes": 8,
        "tables": 0,
        "products": 0,
        "windows": 0,
        "paired_windows": 0,
        "maximum": 0,
        "bus_bits": 32,
        "outstanding": 4,
        "burst_beats": 16,
        "queue_depth": 2,
        "timestamps": 32,
        "address_first": 1,
        "checks": 0,
        "counters": 1,
        "time_limit": 1,
        "parity": 1,
        "element_stride": 0,
        "softmax": 1,
        "curves": 1,
        "result_sums": 1,
        "zero_points": 1,
        "pooling": 1,
        "channel_tables": 1,
        "transposed_weights": 1,
    }
    base = Config()
    names = {item.name for item in dataclasses.fields(Config)} - {"mac_modes"}
    assert set(other) == names
    digests = {base.digest} | {
        dataclasses.replace(base, **{name: value}).digest for name, value in other.items()
    }
    assert len(digests) == len(other) + 1


def test_digest_is_of_the_canonical_text():
    assert json.loads(Config().to_json())["mac_modes"] == ["i8xi8"]
    assert Config(mac_modes=["i8xi8"]).digest == Config().digest


def test_added_fields_leave_the_digest_unchanged():
    """Compare with the digest of version 8, which had no such fields."""
    for name, off in ADDED_FIELDS.items():
        assert getattr(Config(), name) == off
        assert getattr(PRESETS["nano"], name) == off
    before = {"nano": 0x1D5878BF}
    assert {name: PRESETS[name].digest for name in before} == before


@pytest.mark.parametrize(
    ("change", "there"), [("", 1), ("+lanes=8", 0), ("+tables=2", 0), ("+tables=0", 0)]
)
def test_tables_by_channel_need_a_table_for_each_column(change, there):
    config = load_config(f"reference{change}")
    assert config.channel_tables == 1
    assert config.has_channel_tables == there
    assert config.table_uses == ((0, 1, 2, 3) if there else (0, 1, 2))


def test_changes_of_a_preset():
    changed = load_config("small+i8xi4+lanes=8+i16xi8")
    modes = ("i8xi8", "i8xi4", "i16xi8")
    assert changed == dataclasses.replace(PRESETS["small"], mac_modes=modes, lanes=8)
    assert load_config("small+lanes=2+lanes=8+i8xi4+i16xi8") == changed


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("small+i3xi3", "a change must be a mode .*, not 'i3xi3'"),
        ("small+i8xi8", "mode i8xi8 is already there"),
        ("small+lanes=three", "lanes must be an integer, not 'three'"),
        ("small+lanes=3", r"lanes must be a divisor of columns \(8\), not 3"),
        ("small+line=3", "no number of a configuration is called 'line'"),
        ("missing.json", "cannot read missing.json: no such file"),
        ("small+mac_modes=3", "modes are added by their names, not by 'mac_modes=3'"),
        (
            "tiny+i8xi4",
            "config must be one of nano, mini, small, medium, reference, large or a JSON file",
        ),
    ],
)
def test_changes_that_are_none(text, sentence):
    with pytest.raises(ConfigError, match=sentence):
        load_config(text)


def test_macs_per_cycle_are_those_of_the_array():
    """A cell makes two narrow products; a 16-bit value takes two rows, a float `float_rows`."""
    modes = ("i8xi8", "i8xi4", "i4xi4", "i16xi8")
    config = dataclasses.replace(PRESETS["small"], mac_modes=modes)
    assert [config.macs_per_cycle(mode) for mode in modes] == [64, 128, 128, 32]
    config = dataclasses.replace(config, weight_rows=2, mac_modes=("i8xi8", "bf16"))
    assert config.macs_per_cycle("bf16") == 32


def test_a_field_is_given_once():
    with pytest.raises(ConfigError, match="a configuration must give lanes once"):
        Config.from_json('{"lanes": 4, "rows": 16, "lanes": 8}')


def test_no_hint_tells_to_give_modes_a_value():
    """The grammar of presets adds modes by name."""
    with pytest.raises(ConfigError, match="must not name modes of 4 bits and") as caught:
        load_config("small+i8xi4+bf16")
    assert "mac_modes" not in caught.value.hint


@pytest.mark.parametrize("text", ["[" * 100_000, '{"rows":' * 50_000])
def test_deep_json_is_one_sentence(text):
    with pytest.raises(ConfigError, match="a configuration must be JSON: maximum recursion"):
        Config.from_json(text)
