"""Tests name what their modules have: a slow test that does not would otherwise fail days later."""

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]

#: First words of modules that are ours: packages, and the files and folders on pytest's path.
OURS = {"matloom", "matloom_rtl"} | {
    path.stem
    for folder in ("bench", "docs", "host/tests", "rtl/tests", "sim_tests")
    for path in (ROOT / folder).iterdir()
    if path.suffix == ".py" or path.is_dir()
}


def _imported(item):
    """Yield the name and the module of each module of ours that an import statement binds."""
    for alias in item.names:
        if isinstance(item, ast.Import):
            whole, bound = alias.name, alias.asname or alias.name.split(".")[0]
            name = whole if alias.asname else bound
        else:
            name, bound = f"{item.module}.{alias.name}", alias.asname or alias.name
        if name.split(".")[0] not in OURS:
            continue
        try:
            found = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        if isinstance(found, ModuleType):
            yield bound, found


def unknown_names(text):
    """Return the attributes of modules of ours that a program names and that do not exist."""
    tree = ast.parse(text)
    modules = {}
    for item in ast.walk(tree):
        if isinstance(item, ast.Import) or (isinstance(item, ast.ImportFrom) and not item.level):
            modules.update(_imported(item))
    return [
        f"{item.value.id}.{item.attr} (line {item.lineno})"
        for item in ast.walk(tree)
        if isinstance(item, ast.Attribute)
        and isinstance(item.value, ast.Name)
        and item.value.id in modules
        and not hasattr(modules[item.value.id], item.attr)
    ]


def test_unknown_names_are_found():
    text = "from matloom.arch import config, link as frames\nimport matloom\n"
    assert unknown_names(text + "config.load_config, frames.SYNC, matloom.load") == []
    wrong = "config.load_it\nframes.SINK\nmatloom.lode\n"
    assert unknown_names(text + wrong) == [
        "config.load_it (line 3)",
        "frames.SINK (line 4)",
        "matloom.lode (line 5)",
    ]


@pytest.mark.parametrize("folder", ["bench", "host/tests", "rtl/tests", "sim_tests"])
def test_every_name_of_a_module_exists(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    wrong = {str(path): names for path in files if (names := unknown_names(path.read_text()))}
    assert wrong == {}
