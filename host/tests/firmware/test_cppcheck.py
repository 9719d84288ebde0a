"""cppcheck and its MISRA C:2012 addon find nothing beyond the deviations that MISRA.md lists."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FIRMWARE = ROOT / "firmware"
LISTED = FIRMWARE / "cppcheck.txt"
FOLDERS = ("driver", "link", "kernels", "support", "soc")
INCLUDES = ("include", "soc", "examples", "examples/measure")
#: The release whose findings the list is of; others know other rules, and say the same otherwise.
RELEASE = "2.22"


def cppcheck():
    """Return the program, next to this Python or on the path; None if it is not installed."""
    beside = Path(sys.executable).with_name("cppcheck")
    return beside if beside.exists() else shutil.which("cppcheck")


def release():
    if cppcheck() is None:
        return "absent"
    done = subprocess.run([cppcheck(), "--version"], capture_output=True, check=True, text=True)
    return done.stdout.split()[1]


@pytest.fixture(scope="module")
def check():
    """Return a function that checks files or folders, and returns the findings as lines."""
    found = release()
    if not found.startswith(RELEASE):
        pytest.skip(f"needs cppcheck {RELEASE} (extra dev), which is {found}")
    command = [cppcheck(), "--enable=all", "--check-level=exhaustive", "--quiet"]
    command += ["--std=c11", "--platform=unix64", "--addon=misra"]
    command += [f"--addon-python={sys.executable}", f"--suppressions-list={LISTED}"]
    command += ["--template={file}:{line}:{id}:{message}"]
    for name in INCLUDES:
        command += ["-I", f"firmware/{name}"]

    def run(*paths, flags=()):
        done = subprocess.run(
            [*map(str, (*command, *flags, *paths))],
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        )
        return done.stderr.splitlines()

    return run


@pytest.mark.parametrize(
    "name",
    [each if each != "driver" else pytest.param(each, marks=pytest.mark.slow) for each in FOLDERS],
)
def test_a_folder_has_nothing_beyond_the_list(check, name):
    found = check(f"firmware/{name}")
    # Entries for other folders are not used here.
    assert [line for line in found if line.split(":")[2] != "unmatchedSuppression"] == []


@pytest.mark.slow
def test_nothing_beyond_the_list(check):
    """Unused entries of the list also fail: cppcheck reports each as a finding."""
    assert check(*(f"firmware/{name}" for name in FOLDERS)) == []


def test_findings_are_seen(check, tmp_path):
    """Findings of cppcheck, of the addon, and of an entry for another file are reported."""
    source = tmp_path / "broken.c"
    source.write_text(
        "#include <stdint.h>\n"
        "uint32_t broken(uint32_t number);\n"
        "uint32_t broken(uint32_t number) {\n"
        "  uint32_t a[2] = {0, number};\n"
        "  a[0] = a[1] = a[2];\n"
        "  return a[0];\n"
        "}\n"
    )
    found = {line.split(":")[2] for line in check(source)}
    assert {"arrayIndexOutOfBounds", "misra-c2012-13.4", "unmatchedSuppression"} <= found


def test_every_deviation_has_its_reason():
    """The page names exactly the rules and findings of the list."""
    page = (FIRMWARE / "MISRA.md").read_text()
    names = [row.split("|")[1] for row in page.splitlines() if row.startswith("| ")]
    told = set(re.findall(r"\d+\.\d+", " ".join(names)))
    told |= {name for cell in names for name in re.findall(r"`(\w+)`", cell)}
    lines = [line for line in LISTED.read_text().splitlines() if not line.startswith("//")]
    listed = {re.sub(r"misra-c2012-", "", line.split(":")[0]) for line in lines}
    assert listed == told
