"""Every error for users says what to do: its class does, or the place that raises it."""

import ast
from pathlib import Path

import matloom
import matloom_rtl

FILES = [
    path
    for package in (matloom, matloom_rtl)
    for path in sorted(Path(package.__file__).parent.rglob("*.py"))
    if "firmware" not in path.relative_to(Path(package.__file__).parent).parts[:1]
]
TREES = {path: ast.parse(path.read_text()) for path in FILES}
#: Exceptions of Python, which have no hint.
PLAIN = {"Exception", "KeyError", "OSError", "RuntimeError", "TypeError", "ValueError"}


def classes():
    """Return the subclasses of `HintedError` by name: their bases and definitions."""
    found = {
        node.name: ({base.id for base in node.bases if isinstance(base, ast.Name)}, node)
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    wanted, grown = {"HintedError"}, True
    while grown:
        more = {name for name, (bases, _) in found.items() if bases & wanted} - wanted
        wanted, grown = wanted | more, bool(more)
    return {name: found[name] for name in wanted}


def gives_hint(node):
    """Return whether a class has a hint that is not empty, or passes one on."""
    for item in node.body:
        if isinstance(item, ast.Assign) and ast.unparse(item.targets[0]) == "hint":
            return bool(ast.literal_eval(item.value))
    return "hint=" in ast.unparse(node)


def have_hints():
    """Return the errors whose class gives a hint: itself, or one of its bases."""
    known = classes()
    found, grown = {name for name, (_, node) in known.items() if gives_hint(node)}, True
    found -= {"HintedError"}
    while grown:
        more = {name for name, (bases, _) in known.items() if bases & found} - found
        found, grown = found | more, bool(more)
    return found, set(known)


def raised():
    """Yield each call of an exception that is raised: file, name and call."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            yield path, node.func.id, node


def test_every_error_has_a_hint():
    with_hints, known = have_hints()
    assert {"UserError", "DeviceError", "FlowError"} <= known
    without = [
        f"{path}:{call.lineno}: {ast.unparse(call)}"
        for path, name, call in raised()
        if name in known - with_hints and not any(each.arg == "hint" for each in call.keywords)
    ]
    assert without == []


def test_the_command_line_raises_no_exception_of_python():
    bare = [
        f"{path}:{call.lineno}: {ast.unparse(call)}"
        for path, name, call in raised()
        if "cli" in path.parts and name in PLAIN
    ]
    assert bare == []
