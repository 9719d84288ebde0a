"""Every call of the driver on a fake bus, under AddressSanitizer and UBSan."""

import pytest

#: Share of the driver's branches, over all its tests, that are taken.
LEAST_COVERAGE = 0.95


def test_calls(build, engine_files):
    assert build.run([build.engine_test(), *engine_files]).decode() == "29 tests\n"


@pytest.mark.slow
def test_branches_are_taken(counted, engine_files, edits):
    counted.run([counted.engine_test(), *engine_files])
    counted.open_files(edits(12_000))
    counts = counted.branches()
    missed = [(name, line) for name, rows in counts.items() for line, times in rows if times == 0]
    total = sum(map(len, counts.values()))
    print(f"{total - len(missed)} of {total} branches are taken; not in {missed}")
    assert 1 - len(missed) / total >= LEAST_COVERAGE, missed
