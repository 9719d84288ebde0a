from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.hdl import Assert, Assume, Cover, Module, Signal

from matloom_rtl.formal.__main__ import exit_status, merge_results
from matloom_rtl.formal.engine import FAILED, NOT_PROVEN, NOT_RUN, PROVEN, TIMEOUT, Result
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.formal.runner import run_proofs
from support.folders import FOLDERS


def claim(*, limit=7, allowed=1):
    """Return a claim: a counter that saturates at 7 stays within a limit, for allowed inputs."""
    m = Module()
    enable = Signal()
    count = Signal(4)
    with m.If(enable & (count != 7)):
        m.d.sync += count.eq(count + 1)
    m.d.comb += [Assert(count <= limit), Assume(enable <= allowed), Cover(count == 3)]
    return Claim(module=m, ports=(enable,))


PROOF = Proof(kind="counting", unit="a counter", statement="", build=claim, cover_depth=6)


def test_a_claim_has_the_same_text_each_time():
    assert claim().text() == claim().text() != claim(limit=8).text()


@pytest.mark.slow
def test_a_cover_that_no_run_reaches_fails_the_proof(prove):
    result = prove(lambda: claim(allowed=0), cover_depth=6)
    assert (result.verdict, result.detail[:6]) == (FAILED, "cover:")


@pytest.mark.slow
def test_an_induction_that_knows_too_little_is_no_failure(prove):
    """The unreachable count 9 would break the limit in the next cycle."""
    assert prove(lambda: claim(limit=9)).verdict == NOT_PROVEN
    assert prove(lambda: claim(limit=6), depth=9).verdict == FAILED


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_claims_are_proven_in_folders_of_any_name(name, tmp_path):
    folder = tmp_path / FOLDERS[name]
    wrong = replace(PROOF, unit="a wrong counter", build=lambda: claim(limit=6), depth=9)
    proven, failed = run_proofs([PROOF, wrong], minutes=60, folder=folder)
    assert (proven.verdict, proven.detail) == (PROVEN, "")
    assert failed.verdict == FAILED
    assert failed.detail.startswith("prove: ")
    # Verdicts are kept.
    assert not any(run_proofs([PROOF], minutes=0, folder=folder)[0].detail)


def test_running_out_of_time_is_reported(tmp_path):
    (result,) = run_proofs([PROOF], minutes=0, folder=tmp_path)
    assert result.verdict == NOT_RUN
    assert not list(tmp_path.iterdir())


def test_a_missing_tool_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("matloom_rtl.formal.runner.missing", lambda: "a tool must be installed")
    (result,) = run_proofs([PROOF], minutes=1, folder=tmp_path)
    assert (result.verdict, result.detail) == (NOT_RUN, "a tool must be installed")


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        ([PROVEN, PROVEN], 0),
        ([PROVEN, TIMEOUT, NOT_RUN], 0),
        ([PROVEN, FAILED], 1),
        ([PROVEN, NOT_PROVEN, NOT_RUN], 1),
        ([NOT_RUN, NOT_RUN], 1),
        ([TIMEOUT, NOT_RUN], 1),
        ([], 1),
    ],
)
def test_the_exit_status_tells_that_claims_are_proven(verdicts, status):
    assert exit_status(verdicts) == status


@pytest.fixture
def asked(monkeypatch):
    """Return the units whose claims a faked proof was asked for."""
    units = []

    def proves(proof, text, folder, seconds):
        units.append(proof.unit)
        return Result(kind="", unit=proof.unit, statement="", verdict=PROVEN, digest=folder.name)

    monkeypatch.setattr("matloom_rtl.formal.runner.prove", proves)
    monkeypatch.setattr("matloom_rtl.formal.runner.missing", lambda: "")
    return units


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path):
    path.write_bytes(b"")


def replace_verdict(path):
    path.write_text(path.read_text().replace(PROVEN, FAILED).replace('": "', '": "0'))


@pytest.mark.parametrize("damage", [cut, empty, replace_verdict, Path.unlink])
@pytest.mark.parametrize("ending", ["json", "digests"])
def test_a_damaged_verdict_is_proven_again(tmp_path, asked, ending, damage):
    for times in (1, 2, 2):
        (result,) = run_proofs([PROOF], minutes=1, folder=tmp_path)
        assert (result.verdict, len(asked)) == (PROVEN, times)
        if len(asked) == 1:
            damage(next(tmp_path.glob(f"*.{ending}")))


def test_the_verdict_of_another_claim_is_not_taken(tmp_path, asked):
    other = replace(PROOF, build=lambda: claim(limit=8))
    (result,) = run_proofs([other], minutes=1, folder=tmp_path)
    (wanted,) = run_proofs([PROOF], minutes=1, folder=tmp_path)
    for ending in ("json", "digests"):
        path = tmp_path / f"{result.digest}.{ending}"
        path.replace(tmp_path / f"{wanted.digest}.{ending}")
    run_proofs([PROOF], minutes=1, folder=tmp_path)
    assert len(asked) == 3


def test_equal_claims_are_proven_once(tmp_path, asked):
    other = replace(PROOF, unit="its twin")
    for _again in range(2):
        results = run_proofs([PROOF, other], minutes=1, folder=tmp_path)
        assert [result.unit for result in results] == ["a counter", "its twin"]
    assert asked == ["a counter"]


def test_a_report_has_each_claim_once():
    result = Result(kind="", unit="a", statement="", verdict=PROVEN, digest="1")
    other = replace(result, digest="2")
    claims = merge_results({"nano": [result], "small": [result, other]})
    assert [(each["digest"], each["configs"]) for each in claims] == [
        ("1", ["nano", "small"]),
        ("2", ["small"]),
    ]
