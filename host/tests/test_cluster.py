"""A cluster of a scheduler and two workers: the same results as processes, also when one dies."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import partial

import pytest

from matloom.errors import HintedError
from matloom.workers import (
    ClusterError,
    cluster,
    is_address,
    ordered,
    processes,
    reused_executor,
    run_as_completed,
)


@pytest.mark.parametrize("text", ["tcp://localhost:8786", "tls://10.0.0.1:1", "tcp://[::1]:65535"])
def test_addresses(text):
    assert is_address(text)


@pytest.mark.parametrize(
    "text", ["", "localhost:8786", "tcp://host", "tcp://host:0", "tcp://host:65536", "http://a:1"]
)
def test_no_addresses(text):
    assert not is_address(text)


def test_an_executor_is_kept_until_a_worker_dies(tmp_path):
    made = []

    def make():
        made.append(processes(1))
        return made[-1]

    with reused_executor(make) as again:
        assert ordered(abs, [-1, 2], again) == [1, 2]
        assert ordered(abs, [-3], again) == [3]
        assert len(made) == 1
        with pytest.raises(TypeError):
            ordered(abs, ["no number"], again)
        assert ordered(abs, [-4], again) == [4]
    assert len(made) == 2


@contextmanager
def started(*arguments, until):
    """Run a module of Dask in a process of its own, once it has printed `until`."""
    command = [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stderr:
                if until in line:
                    break
            yield process, line
        finally:
            process.kill()


@contextmanager
def workers_of(address, folder, name):
    """Run a worker of one thread without a nanny, so that its death is final."""
    where = ("--local-directory", str(folder / name), "--no-dashboard")
    arguments = (address, "--nthreads", "1", "--no-nanny", "--resources", "nextpnr=1", *where)
    with started("dask_worker", *arguments, until="Registered to") as (process, _line):
        yield process


@pytest.fixture
def address(tmp_path):
    """Run a scheduler, and return its address."""
    pytest.importorskip("distributed")
    where = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show")
    with started("dask_scheduler", *where, until="Scheduler at:") as (_process, line):
        yield line.split()[-1]


def pid(_number):
    return os.getpid()


def dies_once(folder, number):
    """Return the square, but kill the worker the first time that task 3 runs."""
    mark = folder / "died"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def refuses(number):
    raise ValueError(f"no {number}")


@pytest.mark.slow
def test_two_workers_do_what_two_processes_do(address, tmp_path):
    make = partial(cluster, address)
    with workers_of(address, tmp_path, "one"), workers_of(address, tmp_path, "two"):
        with reused_executor(make) as again:
            used = set(ordered(pid, range(40), again))
            assert ordered(partial(dies_once, tmp_path), range(8), again) == [
                number * number for number in range(8)
            ]
        with pytest.raises(ValueError, match="no 1"):
            ordered(refuses, [1], make)
        assert os.getpid() not in used
        assert len(used) == 2
        limited = partial(cluster, address, {"nextpnr": 1})
        assert dict(run_as_completed(abs, [-1, -2], limited)) == {0: 1, 1: 2}


@pytest.mark.slow
def test_a_search_is_the_same_on_a_cluster(address, tmp_path):
    from matloom import frontend
    from matloom.arch.config import load_config
    from matloom.compiler import CompileOptions
    from matloom.data.digits import NETWORK
    from matloom.tuner.search import Tuning
    from matloom.tuner.study import new_study

    study = new_study(frontend.load(NETWORK), load_config("nano"), CompileOptions())

    def found(name, make):
        search = Tuning(study=study, number=0, journal=tmp_path / name, seed=3)
        with reused_executor(make) as again:
            best = search.run(32, again)
        return best, sorted((tmp_path / name).read_text().splitlines())

    with (
        workers_of(address, tmp_path, "one") as first,
        workers_of(address, tmp_path, "two"),
    ):
        far = found("far", partial(cluster, address))
        first.kill()
        after = found("after", partial(cluster, address))
    assert far == after == found("near", partial(processes, 2))


@pytest.mark.slow
def test_nobody_answers():
    pytest.importorskip("distributed")
    with pytest.raises(ClusterError, match="no scheduler answers at tcp") as found:
        cluster("tcp://127.0.0.1:9")
    assert isinstance(found.value, HintedError)
    assert "dask scheduler" in found.value.hint
