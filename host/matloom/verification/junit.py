"""Writes the report of a verification as JUnit XML, for continuous integration."""

from xml.etree import ElementTree

from matloom.verification.verdicts import FAILED, PASSED, Case, Step, Verification

#: Verdicts reported as passed; all others except failures are reported as skipped.
_GOOD = (PASSED, "PROVEN")


def to_junit(verification: Verification) -> str:
    """Return the XML text: a test suite for each step, with a case for the step and each proof."""
    root = ElementTree.Element("testsuites", name=f"matloom verify {verification.name}")
    for step in verification.steps:
        whole = Case(
            name=step.name, verdict=step.verdict, detail=step.sentence, seconds=step.seconds
        )
        cases = [*step.cases, whole]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=step.name,
            timestamp=verification.started.isoformat(timespec="seconds"),
            time=f"{step.seconds:g}",
            tests=str(len(cases)),
            errors="0",
            failures=str(sum(case.verdict == FAILED for case in cases)),
            skipped=str(sum(case.verdict not in (*_GOOD, FAILED) for case in cases)),
        )
        for case in cases:
            _add_case(suite, step, case)
    ElementTree.indent(root)
    return ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n"


def _add_case(suite: ElementTree.Element, step: Step, case: Case) -> None:
    """Add a test case with its verdict to the XML element of a test suite."""
    found = ElementTree.SubElement(
        suite,
        "testcase",
        classname=f"matloom.verify.{step.name}",
        name=case.name,
        time=f"{case.seconds:g}",
    )
    message = f"{case.verdict}: {case.detail}"
    if case.verdict == FAILED:
        failure = ElementTree.SubElement(found, "failure", message=message)
        failure.text = "\n".join(step.lines)
    elif case.verdict not in _GOOD:
        ElementTree.SubElement(found, "skipped", message=message)
