"""The page of a profile in a browser: it fetches nothing, fits a phone, and works by keyboard."""

import json
import shutil

import pytest
from click.testing import CliRunner

from matloom import cli, frontend
from matloom.arch.config import load_config
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from matloom.profile.comparison import compare_profiles
from matloom.profile.page import to_html
from matloom.profile.profile import make_profile
from matloom.report import make_report

#: Bytes that a page may have.
MOST_BYTES = 300_000

FILES = {"index.html", "timeline.json", "layers.csv", "profile.json", "node_data.json"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder that the command line has written."""
    made = tmp_path_factory.mktemp("profile") / "out"
    words = ["profile", "digits", "--config", "nano", "--device", "model", "-o", str(made)]
    result = CliRunner().invoke(
        cli.cli, [*words, "--check", "none", "--compare", "nano+lanes=4"], catch_exceptions=False
    )
    assert result.exit_code == 0
    assert "1. " in result.output
    return made


def test_the_verb_writes_its_files(folder):
    assert {path.name for path in folder.iterdir()} == FILES
    page = (folder / "index.html").read_text()
    assert len(page) < MOST_BYTES
    found = json.loads((folder / "profile.json").read_text())
    assert found["cycles"] == sum(each["cycles"] for each in found["operators"])
    for title in ("What would help", "Comparison", "Operators", "Roofline", "Scratchpad", "Bus"):
        assert f"{title}</h2>" in page


def test_comparison_with_an_earlier_profile(folder):
    words = ["profile", "digits", "--config", "nano", "--device", "fast", "--check", "none"]
    before = str(folder / "profile.json")
    result = CliRunner().invoke(cli.cli, [*words, "--compare", before], catch_exceptions=False)
    assert "+0.0%." in result.output


def test_a_network_on_the_host_only_has_a_page():
    program = compile_network(frontend.load(NETWORK), load_config("nano"), check="none")
    report = make_report(program, "model", [])
    profile = make_profile(program, report, advise=None)
    alone = type(profile)(
        program=program, report=report, timelines=(), operators=(), traffic={}, advice=()
    )
    assert "<h2" in to_html(alone, compare_profiles(profile.as_dict(), profile.as_dict()))


@pytest.fixture(scope="module")
def browser():
    """Return a headless Chromium; skip if there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, timeout=300_000)
        yield browser
        browser.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_opens_by_itself(browser, folder, scheme, width):
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page, asked, complaints = context.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    address = (folder / "index.html").as_uri()
    page.goto(address)
    assert asked == [address]
    assert complaints == []
    # Nothing but tables and drawings, which scroll by themselves, is wider than the screen.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    shade = sum(map(int, ground.removeprefix("rgb(").removesuffix(")").split(",")))
    assert (shade < 3 * 64) == (scheme == "dark")
    context.close()


@pytest.mark.slow
def test_the_page_works_by_keyboard(browser, folder):
    page = browser.new_page()
    page.goto((folder / "index.html").as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    # Sorting by cycles, with the button in the heading.
    button = page.locator("#operators th.number button").first
    button.focus()
    page.keyboard.press("Enter")
    cells = page.locator("#operators tbody tr td:nth-child(2)").all_inner_texts()
    cycles = [int(each.replace(",", "")) for each in cells if each.strip()]
    assert cycles == sorted(cycles, reverse=True)
    # A point of the roofline tells what it is.
    page.locator("#roofline circle").first.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert "cycles" in page.locator("#tip").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()
    before = page.evaluate("document.documentElement.dataset.theme ?? ''")
    page.locator("#theme").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme ?? ''") != before
    page.close()
