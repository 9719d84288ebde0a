"""Names of configurations: short texts that lead back to the same configuration."""

from dataclasses import replace

import pytest

from matloom.arch.config import PRESETS, Config, load_config
from matloom.arch.config_name import config_name, describe_config, digest_name


@pytest.mark.parametrize(
    "text",
    [
        *PRESETS,
        "small+lanes=4",
        "nano+i8xi4",
        "reference+bf16",
        "small+i8xi4+lanes=4",
        "reference+tables=0",
        "medium+element_stride=0+timestamps=8",
    ],
)
def test_names_lead_back(text):
    config = load_config(text)
    assert load_config(config_name(config)) == config
    assert len(config_name(config)) <= len(text)
    assert describe_config(config) == f"{config_name(config)} ({config.digest:08x})"


def test_far_configurations_are_named_by_their_array():
    far = replace(
        Config(),
        rows=8, columns=12, lanes=12, weight_rows=2, tables=0, queue_depth=2,
        acc_bytes=4 * 12 * 512, timestamps=8, element_stride=0, windows=0, paired_windows=0,
    )  # fmt: skip
    assert config_name(far) == ""
    assert describe_config(far) == f"8x12 ({far.digest:08x})"


def test_digests():
    assert digest_name(PRESETS["small"].digest) == describe_config(PRESETS["small"])
    assert digest_name(0x1234) == "00001234"
