"""The work to choose grows with the stages, not with their square."""

import sys

from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, Job, run_phases
from matloom.schedule.choices.policies import first_params, plain_params, random_params
from matloom.schedule.params import Candidate
from support.mobilenet import mobilenet

CONFIG = PRESETS["reference"]


def calls_of(function, *arguments):
    """Return the number of Python functions that a call runs."""
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return count


def test_the_work_is_linear_in_stages():
    job = Job(config=CONFIG, options=CompileOptions(tuned=False))
    (run,) = run_phases(mobilenet(60, 48), job, last="bind").values["bind"].runs
    half = run.segment.first_stages(len(run.segment.stages) // 2)
    for function, arguments in (
        (first_params, [Candidate()]),
        (random_params, [1]),
        (plain_params, []),
    ):
        few, many = (calls_of(function, each, *arguments) for each in (half, run.segment))
        assert many < 2.2 * few, function.__name__
