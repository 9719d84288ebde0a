"""The driver's files call each other in one direction, so they can be read in order."""

import graphlib
import re

import firmware

#: A function that other files may call, with its body.
_DEFINED = re.compile(r"^(?!static)[A-Za-z_][\w \*]*?\b(matloom_\w+)\([^;{]*\)\s*\{", re.M)
#: Rules are defined by a macro that gives them their prefix, and listed by others.
_RULE = re.compile(r"^RULE\((\w+)\) \{", re.M)


def uses():
    """Return the files of the driver, each with the files whose functions it calls."""
    sources = {path.stem: path.read_text() for path in (firmware.FIRMWARE / "driver").glob("*.c")}
    owner = {
        name: stem
        for stem, text in sources.items()
        for name in (*_DEFINED.findall(text), *_RULE.findall(text))
    }
    return {
        stem: {owner[word] for word in re.findall(r"\w+", text) if word in owner} - {stem}
        for stem, text in sources.items()
    }


def test_the_files_of_the_driver_have_an_order():
    graphlib.TopologicalSorter(uses()).prepare()


def test_uses_are_found():
    found = uses()
    assert {"engine", "tensors"} <= found["run"]
    assert {"limits", "parts", "steps", "variables"} <= found["rules"]
    assert found["checksum"] == set()
