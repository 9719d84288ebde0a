"""Tasks on workers give the same results as without, even if a worker dies."""

import os
import signal
from functools import partial
from itertools import count, islice

import pytest

from matloom.workers import LostWorkersError, in_order, ordered, processes, run_as_completed


def square(number):
    return number * number


def dies_once(folder, number):
    """Return the square; kill the worker the first time that task 3 runs."""
    mark = folder / "died"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def dies(_number):
    os.kill(os.getpid(), signal.SIGKILL)


def refuses(number):
    raise ValueError(f"no {number}")


def test_one_worker_needs_no_process():
    assert ordered(square, range(5), partial(processes, 1)) == [0, 1, 4, 9, 16]
    assert ordered(square, [], partial(processes, 1)) == []


def test_results_keep_their_positions():
    found = dict(run_as_completed(square, [3, 1, 2], partial(processes, 1), ahead=2))
    assert found == {0: 9, 1: 1, 2: 4}


def test_tasks_without_end_begin_as_results_are_taken():
    begun = []

    def task(number):
        begun.append(number)
        return number * number

    found = in_order(task, count(), partial(processes, 1), ahead=3)
    assert list(islice(found, 2)) == [0, 1]
    assert begun == [0, 1, 2, 3]


def test_errors_of_tasks_are_raised():
    with pytest.raises(ValueError, match="no 7"):
        ordered(refuses, [7], partial(processes, 1))


@pytest.mark.slow
def test_a_dying_worker_changes_no_result(tmp_path):
    task = partial(dies_once, tmp_path)
    assert ordered(task, range(8), partial(processes, 2)) == [n * n for n in range(8)]
    assert (tmp_path / "died").exists()


@pytest.mark.slow
def test_workers_that_always_die_end_the_work():
    with pytest.raises(LostWorkersError, match="3 times in a row with 2 tasks left"):
        ordered(dies, [1, 2], partial(processes, 2))


def test_without_processes_each_result_comes_before_the_next_task():
    """What is written down after each result survives an interruption."""
    begun = []
    results = run_as_completed(begun.append, [1, 2, 3], partial(processes, 1))
    for done in (1, 2, 3):
        assert next(results) == (done - 1, None)
        assert begun == [1, 2, 3][:done]
    assert next(results, "none") == "none"
