"""Engines that no board has room for are refused before anything is synthesised."""

import pytest

from matloom.cli import boards
from matloom.cli.group import cli
from matloom.cli.room import require_capacity
from matloom.device.errors import DeviceError
from matloom.errors import UserError
from matloom.toolchain import soc_firmware
from matloom_rtl.board.definition import board_names, load_board


@pytest.fixture
def plans(monkeypatch):
    """Return a list of the plans that are made; none is built."""
    made = []

    def plan(board, config, *_):
        made.append(config)
        raise UserError("planned", hint="stop here")

    monkeypatch.setattr(boards, "_plan_board", plan)
    return made


def build(tmp_path, *words):
    with pytest.raises(UserError) as refused:
        cli.main(["build", *words, "-o", str(tmp_path / "out")], standalone_mode=False)
    return refused.value


@pytest.mark.parametrize("name", [name for name in board_names() if name != "arty-a7-35t"])
def test_engines_of_boards(name):
    """Each board has room for its own engine, which was routed, and none for `large`."""
    require_capacity(name, load_board(name).config, None)
    with pytest.raises(UserError, match=rf"large does not fit {name}: .* tables"):
        require_capacity(name, "large", None)


def test_a_build_that_cannot_fit(plans, tmp_path):
    error = build(tmp_path, "colorlight-5a75b", "--config", "large")
    assert "large does not fit colorlight-5a75b" in str(error)
    assert "matloom fit colorlight-5a75b" in error.hint
    assert plans == []
    assert not (tmp_path / "out").exists()


def test_a_build_that_is_forced(plans, tmp_path):
    words = ("colorlight-5a75b", "--config", "large", "--force")
    assert str(build(tmp_path, *words)) == "planned"
    assert plans == ["large"]


def test_the_engine_of_the_board_is_built(plans, tmp_path):
    assert str(build(tmp_path, "colorlight-5a75b")) == "planned"


def test_boot_needs_a_port_first(monkeypatch):
    def compile_server():
        raise AssertionError("the port is missing")

    monkeypatch.setattr(soc_firmware, "link_server", compile_server)
    with pytest.raises(DeviceError, match="there is no serial port /nope") as refused:
        cli.main(["boot", "uart:/nope"], standalone_mode=False)
    assert refused.value.hint
