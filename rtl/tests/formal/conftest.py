import sys
from pathlib import Path
from types import ModuleType

import pytest

from matloom_rtl.formal.engine import FAILED, missing
from matloom_rtl.formal.proof import Proof
from matloom_rtl.formal.runner import run_proofs


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the slow tests of this folder, which `make formal-mutants` runs."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("slow"):
            item.add_marker("proof")


@pytest.fixture
def mutated():
    """Return a class with texts of its module's source replaced; each must occur once."""

    def mutated(component, *changes):
        source = Path(sys.modules[component.__module__].__file__).read_text()
        for before, after in changes:
            assert source.count(before) == 1, before
            source = source.replace(before, after)
        mutant = ModuleType("mutant")
        exec(compile(source, "mutant", "exec"), mutant.__dict__)
        return getattr(mutant, component.__name__)

    return mutated


@pytest.fixture
def prove(tmp_path):
    """Return the verdict on a claim or a proof, without cached results."""
    if missing():
        pytest.skip(missing())

    def prove(claim, **options):
        if not isinstance(claim, Proof):
            options = {"depth": 2, "cover_depth": 25} | options
            claim = Proof(kind="", unit="", statement="", build=claim, **options)
        (result,) = run_proofs([claim], minutes=5, folder=tmp_path)
        return result

    return prove


@pytest.fixture
def refuted(prove):
    """Assert that a run of so many cycles breaks a claim."""

    def refuted(claim, depth):
        # No induction is needed, and none is tried meanwhile.
        result = prove(claim, depth=depth, cover_depth=1, bounded=True)
        assert (result.verdict, result.detail[:6]) == (FAILED, "prove:")

    return refuted
