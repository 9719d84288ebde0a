"""Tools that fail, that are missing, and that never come to an end."""

import sys

import pytest

from matloom_rtl.fpga.tools import FlowError, program, run


def tool(*lines, then=""):
    """Return the command of a tool that prints lines."""
    return [sys.executable, "-c", f"print({chr(10).join(lines)!r}, flush=True); {then}"]


def rounds(*shared):
    return [
        f"Info:  iter={n} wires=9 overused={each} overuse=9" for n, each in enumerate(shared, 1)
    ]


def test_output_is_returned_and_kept(tmp_path):
    said = []
    assert run(tool("one", "two"), tmp_path, "tool.log", said.append) == "one\ntwo\n"
    assert (tmp_path / "tool.log").read_text() == "one\ntwo\n"
    assert said == [f"{sys.executable.rpartition('/')[2]}: see {tmp_path / 'tool.log'}"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["well", "ERROR: bad net", "1 error"], "failed with status 3: ERROR: bad net"),
        (["well", "gone"], "failed with status 3: gone"),
        ([""], "failed with status 3: it printed nothing"),
    ],
)
def test_failure_carries_the_tools_words(lines, message, tmp_path):
    with pytest.raises(FlowError, match=message):
        run(tool(*lines, then="raise SystemExit(3)"), tmp_path, "tool.log", lambda _line: None)


def test_missing_tool_is_named():
    with pytest.raises(FlowError, match=r"no-such-tool must be installed: pip install"):
        program("no-such-tool")


def test_rounds_of_routing_are_told(tmp_path):
    said = []
    run(tool(*rounds(*range(40, 15, -1))), tmp_path, "tool.log", said.append)
    assert said[1:] == [
        "routing, round 10: nets share 31 wires",
        "routing, round 20: nets share 21 wires",
    ]


def test_routing_without_end_is_stopped(tmp_path):
    endless = tool(*rounds(*[7] * 250), then="import time; time.sleep(600)")
    with pytest.raises(FlowError, match="within 250 rounds, and nets still share 7 wires"):
        run(endless, tmp_path, "tool.log", lambda _line: None)


def test_routing_that_ends_late_is_taken(tmp_path):
    run(tool(*rounds(*[7] * 249, 0)), tmp_path, "tool.log", lambda _line: None)
