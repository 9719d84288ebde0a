"""Every signal of the hardware has a name: in waves, critical paths and shipped Verilog."""

import ast
from pathlib import Path

import pytest

from matloom.arch.config import PRESETS, load_config
from matloom_rtl.convert import to_rtlil
from matloom_rtl.top import Top

RTL = Path(__file__).parents[1]
SOURCES = sorted(RTL.rglob("*.py"))


def makes_signal(item):
    """Return whether an expression is `Signal(...)` or `Signal.like(...)` without a name."""
    if not isinstance(item, ast.Call) or any(each.arg == "name" for each in item.keywords):
        return False
    made = item.func
    if isinstance(made, ast.Attribute) and made.attr == "like":
        made = made.value
    return getattr(made, "id", getattr(made, "attr", "")) == "Signal"


def nameless(text):
    """Return the lines of signals that Amaranth cannot name.

    It names a signal after the variable or attribute that the next instruction stores it in, so the
    call must be the whole right side of an assignment to one of these.
    """
    tree = ast.parse(text)
    named = {
        id(item.value)
        for item in ast.walk(tree)
        if isinstance(item, ast.Assign | ast.AnnAssign)
        for target in (item.targets if isinstance(item, ast.Assign) else [item.target])[:1]
        if isinstance(target, ast.Name | ast.Attribute)
    }
    calls = (item for item in ast.walk(tree) if makes_signal(item))
    return sorted(item.lineno for item in calls if id(item) not in named)


def test_each_signal_is_assigned_to_one_variable():
    found = {path.relative_to(RTL).as_posix(): nameless(path.read_text()) for path in SOURCES}
    assert len(found) > 200
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a = Signal()\nself.b = Signal(8, init=1)\nc: Signal = hdl.Signal.like(a)", []),
        ("a, b = (Signal(name=n) for n in 'ab')\nuse(Signal(name='c'))", []),
        ("a, b = Signal(), Signal.like(c)", [1, 1]),
        ("a, b = (Signal() for _ in range(2))", [1]),
        ("a = [Signal()]\nb['x'] = Signal()\nc = Signal() if d else Const(0)", [1, 2, 3]),
        ("use(Signal())", [1]),
    ],
)
def test_unnamed_signals_are_found(text, lines):
    assert nameless(text) == lines


def generated_names(config):
    """Return the names that Amaranth made up for unnamed signals in a chip."""
    text = to_rtlil(Top(config), "matloom")
    return {name for name in ("$signal", "$like") if name in text}


def test_no_name_is_made_up_in_nano():
    assert not generated_names(load_config("nano"))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*PRESETS} - {"nano"}))
def test_no_name_is_made_up(name):
    assert not generated_names(load_config(name))
