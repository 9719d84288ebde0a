"""Words that must not come back: in names, docstrings, comments, messages and pages."""

import ast
import functools
import re
import subprocess
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text())
EXCEPTIONS = WORDS["exceptions"]

#: Written once, and kept as they were: decisions are dated.
KEPT = ("docs/decisions/", "docs/results/", "host/tests/words.toml", "host/tests/test_words.py")
#: Generated from the reports of proofs, whose texts are in `matloom_rtl.formal`.
OF_PROOFS = "docs/proofs.md"
KINDS = (".py", ".md", ".c", ".h", ".cc", ".toml")


@functools.cache
def texts():
    """Return all text files of the repository that people read, by path."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    paths = [
        path for path in listed if path.endswith(KINDS) and not path.startswith((*KEPT, OF_PROOFS))
    ]
    return {path: (ROOT / path).read_text() for path in paths if (ROOT / path).is_file()}


def in_one_line(text):
    """Return a text with its lines joined, so that phrases across lines are found."""
    return re.sub(r"\s*\n\s*(?:#:?|//|\*)?\s*", " ", text)


def phrases_in(text):
    listed = "|".join(map(re.escape, WORDS["phrases"]))
    return [found[0] for found in re.finditer(rf"\b(?:{listed})\b", in_one_line(text), re.I)]


def openings_in(text):
    """Return docstrings that start with a listed word."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = [
        ast.get_docstring(node) for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)
    ]
    listed = "|".join(WORDS["openings"])
    return [doc.splitlines()[0] for doc in docs if doc and re.match(rf"(?:{listed})\b", doc)]


def participles_in(text):
    """Return functions whose whole name is a past participle; properties may be named so."""
    words = WORDS["participles"]
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            name = node.name.strip("_")
            is_participle = name in words["irregular"] or re.fullmatch(r"[a-z]+ed", name)
            decorators = map(ast.unparse, node.decorator_list)
            is_property = any("property" in each or ".setter" in each for each in decorators)
            if is_participle and not is_property and name not in words["verbs"] + words["public"]:
                found.append(node.name)
    return found


def names_in(text):
    return [name for name in WORDS["names"] if re.search(rf"\b{name}\b", text)]


def faults(look, paths):
    return [f"{path}: {found}" for path in paths for found in look(texts()[path])]


def apart(kind, suffixes=KINDS):
    """Return the paths to check, and those in excepted folders, by folder."""
    excepted = {folder: [] for folder in EXCEPTIONS[kind]}
    rest = []
    for path in texts():
        if path.endswith(suffixes):
            folders = [each for each in excepted if path == each or path.startswith(f"{each}/")]
            (excepted[folders[0]] if folders else rest).append(path)
    return rest, excepted


def product(paths):
    """Return the paths that are not tests."""
    return [path for path in paths if "/tests/" not in path and not path.startswith("sim_tests/")]


def test_no_phrase_comes_back():
    found = faults(phrases_in, apart("phrases")[0])
    assert not found, "words.toml says what to write:\n" + "\n".join(found)


def test_docstrings_open_with_a_noun_or_a_verb():
    found = faults(openings_in, product(apart("openings", (".py",))[0]))
    assert not found, "words.toml says what to write:\n" + "\n".join(found)


def test_functions_are_not_named_by_participles():
    found = faults(participles_in, product(apart("participles", (".py",))[0]))
    assert not found, "name a function by what it does or returns:\n" + "\n".join(found)


def test_a_participle_is_found():
    text = "def _made(): ...\nclass A:\n    @property\n    def found(self): ...\ndef joined(): ..."
    assert participles_in(text) == ["_made", "joined"]
    assert not participles_in("def feed(): ...\ndef make_joined(): ...\ndef is_kept(): ...")


def test_no_name_comes_back():
    paths = [path for path in texts() if path != "CHANGELOG.md"]
    assert not faults(names_in, paths)


@pytest.mark.parametrize(
    ("kind", "look"),
    [("phrases", phrases_in), ("openings", openings_in), ("participles", participles_in)],
)
def test_exceptions_are_needed(kind, look):
    """Folders without faults must leave the list."""
    suffixes = KINDS if kind == "phrases" else (".py",)
    for folder, paths in apart(kind, suffixes)[1].items():
        assert faults(look, paths), f"words.toml: {folder} has no more {kind} of the list"


@pytest.mark.parametrize(
    "text",
    [
        "a value\n    # of no\n    # account here",
        'raise ValueError("made anew")',
        "The vector at hand.",
        "Likewise, the second.",
    ],
)
def test_a_phrase_is_found_across_lines(text):
    assert phrases_in(text)


def test_other_words_are_not_found():
    assert not phrases_in("accountable, handy, a newer one, replace it in its place")
    assert openings_in('def f():\n    """What it is."""') == ["What it is."]
    assert not openings_in('def f():\n    """Whether it is."""\nclass A:\n    x = "What"')


def places_of_classes(sources):
    """Return the files that define each public class, by its name."""
    places = defaultdict(list)
    for path, text in sources.items():
        for found in re.findall(r"^class ([A-Z]\w*)", text, re.M):
            places[found].append(path)
    return places


# The hardware's unit and what the host says of it may share a name: `Load`, `Counters`.
@pytest.mark.parametrize("package", ["host/matloom/", "rtl/matloom_rtl/"])
def test_a_class_name_means_one_thing(package):
    sources = {
        path: text
        for path, text in texts().items()
        if path.startswith(package) and path.endswith(".py")
    }
    places = places_of_classes(sources)
    assert len(places) > 100
    assert not {name: paths for name, paths in places.items() if len(paths) > 1}


def test_a_name_of_two_classes_is_found():
    places = places_of_classes({"a.py": "class Walk:\n", "b.py": "x = 1\nclass Walk(Base):\n"})
    assert places["Walk"] == ["a.py", "b.py"]
