"""The command line: its verbs, and how it ends after a mistake."""

import json
import sys

import pytest
from click.testing import CliRunner

import matloom
from matloom import cli, doctor


def run_main(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["matloom", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_version():
    result = CliRunner().invoke(cli.cli, ["--version"])
    assert (result.exit_code, result.output.split()[-1]) == (0, matloom.__version__)


def test_doctor_prints_a_table():
    result = CliRunner().invoke(cli.cli, ["doctor"])
    assert result.exit_code == 0
    assert "amaranth" in result.output


def test_doctor_prints_json():
    result = CliRunner().invoke(cli.cli, ["doctor", "--json"])
    assert json.loads(result.output)["healthy"] is True


def test_doctor_fails_without_the_base(monkeypatch):
    sick = doctor.Finding(tool="g++", need="base", detail="not on PATH", remedy="install it")
    monkeypatch.setattr(doctor, "examine", lambda: [sick])
    assert CliRunner().invoke(cli.cli, ["doctor"]).exit_code == 1


@pytest.mark.parametrize(
    "error",
    [ValueError("rows must be positive,\n not 0"), OSError("rows must be positive, not 0")],
    ids=["value", "system"],
)
def test_users_mistake_is_one_line(monkeypatch, capsys, error):
    def fail():
        raise error

    monkeypatch.setattr(doctor, "examine", fail)
    assert run_main(monkeypatch, "doctor") == 2
    assert capsys.readouterr().err == "matloom: rows must be positive, not 0\n"


def test_defect_keeps_its_traceback(monkeypatch):
    def fail():
        raise RuntimeError

    monkeypatch.setattr(doctor, "examine", fail)
    monkeypatch.setattr(sys, "argv", ["matloom", "doctor"])
    with pytest.raises(RuntimeError):
        cli.main()


def test_unknown_verb(monkeypatch, capsys):
    assert run_main(monkeypatch, "frobnicate") == 2
    assert "No such command 'frobnicate'" in capsys.readouterr().err
