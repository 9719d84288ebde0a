"""Readable sizes of functions, files and parameter lists; each exception has a reason."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for folder in ("host/matloom", "rtl/matloom_rtl", "host/tests/support")
    for path in (ROOT / folder).rglob("*.py")
    if "tests" not in path.relative_to(ROOT / folder).parts
)

#: Lines of a file, lines of a function without its docstring, parameters other than self.
MOST_LINES, MOST_STATEMENT_LINES, MOST_PARAMETERS = 300, 40, 7

_TABLE = "one table, in the order of its page; its rows are data"
_FRONT = "the front door: each option is a parameter with a name and a documented default"
_SIGNALS = "one unit: its signals are declared once, and statements of a cycle stand together"
_SCENARIOS = "one list of cases, each a few lines"

#: Files of more lines.
LONG_FILES = {
    "host/matloom/arch/config.py": _TABLE,
    "host/matloom/arch/isa.py": _TABLE,
    "host/matloom/arch/program_file.py": _TABLE,
    "host/matloom/ops/__init__.py": _FRONT,
    "host/matloom/program/read.py": "the reader of one format, section by section",
    "host/matloom/verification/draws.py": _SCENARIOS,
    "host/matloom/schedule/tuning.py": _TABLE,
    "host/tests/support/mutants.py": _SCENARIOS,
    "host/tests/support/random_network.py": "one method an operator",
    "host/matloom/verification/random_operators.py": "one method an operator",
    "host/matloom/verification/random_programs.py": _SCENARIOS,
    "host/matloom/tools/bench.py": _SCENARIOS,
    "rtl/matloom_rtl/array/execute.py": _SIGNALS,
    "rtl/matloom_rtl/array/walk.py": _SIGNALS,
    "rtl/matloom_rtl/control/bounds.py": _SIGNALS,
}

#: Functions of more lines: in the hardware all are of one kind.
LONG_FUNCTIONS = {
    "host/matloom/device/model/execute.py": {"execute": "the four loops of EXEC, as one nest"},
    "host/matloom/device/model/post.py": {"post": "the steps of POST in the order of the lanes"},
    "host/matloom/ops/__init__.py": {"matmul": _FRONT, "conv2d": _FRONT, "_graph": _FRONT},
    "host/matloom/tools/precision.py": {"precision_report": "one row of the report after another"},
}

#: Functions of more parameters.
MANY_PARAMETERS = {
    "host/matloom/device/open.py": {"open_device": _FRONT},
    "host/matloom/ops/__init__.py": {"matmul": _FRONT, "conv2d": _FRONT},
    "host/matloom/ops/computed_products.py": {"batch_matmul": _FRONT},
    "host/matloom/runtime.py": {"compile": _FRONT, "load": _FRONT},
    "host/matloom/tools/evaluate.py": {"evaluate": _FRONT},
    "rtl/matloom_rtl/array/walk.py": {"_bounds": _SIGNALS},
    "rtl/matloom_rtl/bus/testing.py": {"__init__": "knobs of a bus that misbehaves, each by name"},
}


def relative(path):
    return path.relative_to(ROOT).as_posix()


def functions(text):
    for item in ast.walk(ast.parse(text)):
        if isinstance(item, ast.FunctionDef):
            yield item


def length(function):
    """Return a function's lines from its name on, without the docstring."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        first = function.body[0]
        lines -= first.end_lineno - first.lineno + 1
    return lines


def parameters(function):
    given = function.args
    names = [item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def exceeding(text, measure, limit):
    return {item.name for item in functions(text) if measure(item) > limit}


def too_large(path):
    """Yield what is too large in a file, or is listed as an exception without need."""
    name, text = relative(path), path.read_text()
    lines = len(text.splitlines())
    if (lines > MOST_LINES) != (name in LONG_FILES):
        yield f"{name}: {lines} lines"
    for item in exceeding(text, parameters, MOST_PARAMETERS) ^ set(MANY_PARAMETERS.get(name, ())):
        yield f"{name}: parameters of {item}"
    if "matloom_rtl" not in name:
        long = exceeding(text, length, MOST_STATEMENT_LINES)
        for item in long ^ set(LONG_FUNCTIONS.get(name, ())):
            yield f"{name}: lines of {item}"


def test_files_and_functions_are_short():
    """Exceptions that are no longer needed fail, too, so the lists only shrink."""
    assert [problem for path in SOURCES for problem in too_large(path)] == []


def test_exceptions_are_of_files_that_exist():
    names = {*LONG_FILES, *LONG_FUNCTIONS, *MANY_PARAMETERS}
    assert names <= set(map(relative, SOURCES))


def chains(tree):
    """Yield the lines of branches on a second type of the same name."""

    def asked(test):
        plain = isinstance(test, ast.Call) and getattr(test.func, "id", "") == "isinstance"
        return ast.unparse(test.args[0]) if plain else None

    for item in ast.walk(tree):
        if isinstance(item, ast.If) and len(item.orelse) == 1:
            other = item.orelse[0]
            if isinstance(other, ast.If) and asked(item.test) == asked(other.test) is not None:
                yield other.lineno


#: Files with branches on kinds that are not ours.
CHAINS = {"host/tests/support/mutant_rules.py": "nodes of Python's syntax"}


@pytest.mark.slow
def test_no_chains_of_isinstance():
    found = {}
    for path in SOURCES:
        lines = list(chains(ast.parse(path.read_text())))
        if lines:
            found[relative(path)] = lines
    assert set(found) == set(CHAINS), found
