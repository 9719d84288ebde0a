"""The device that answers by kernels: its results, its report, and what it refuses."""

import dataclasses
import json

import numpy as np
import pytest

import matloom
from matloom.arch.isa import Region
from matloom.arch.numerics import LARGEST_LIMBS, from_limbs, to_limbs
from matloom.data.digits import NETWORK
from matloom.device.errors import DeviceError, DeviceFaultError
from matloom.program import EngineStep, Program, Verdict
from matloom.program.verdict import describe_equality
from matloom.report import make_report
from matloom.tools.compare import random_inputs
from support.random_network import Size, random_network

SIZE = Size(operators=8, tensor_bytes=2000, macs=200_000)


def draw(program, seed, samples=1):
    noise = np.random.default_rng(seed)
    return {
        info.name: noise.integers(-128, 128, (samples * info.shape[0], *info.shape[1:])).astype(
            info.dtype
        )
        for info in program.inputs
    }


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("preset", ["nano", "small"])
@pytest.mark.parametrize("number", range(6))
def test_random_networks_are_as_on_the_model(preset, number, seed):
    graph = random_network(1000 * seed + number, SIZE, words=number % 2 == 1, state=number % 3 == 2)
    program = matloom.compile(graph, preset)
    given = {graph.tensors[at].name: array for at, array in random_inputs(graph, seed).items()}
    with matloom.load(program, "fast") as fast, matloom.load(program, "model") as model:
        for _ in range(2):
            found, wanted = fast.run(given), model.run(given)
            assert found.keys() == wanted.keys()
            for name, array in wanted.items():
                assert found[name].dtype == array.dtype
                np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_no_instruction_is_executed():
    """Outputs stay the same with a corrupted program image: the kernels computed them."""
    program = matloom.compile(NETWORK, "nano")
    given = draw(program, 0, samples=3)
    empty = dataclasses.replace(program, image=bytes(len(program.image)))
    driver = matloom.open_device("fast", "nano")
    session = matloom.load(program, driver)
    wanted = session.run(given)
    driver.write_region(Region.PROGRAM, 0, empty.image)
    for name, array in session.run(given).items():
        np.testing.assert_array_equal(array, wanted[name])
    assert session.report().counters["instructions"] == 0


def test_reports_say_what_they_are(tmp_path):
    program = matloom.compile(NETWORK, "nano", check="full")
    with matloom.load(program, "fast") as fast, matloom.load(program, "model") as model:
        for session in (fast, model):
            session.run(draw(program, 0))
            session.run(draw(program, 1))
        reports = [session.report() for session in (fast, model)]
    one, other = reports
    assert (one.cycles, one.resident) == (other.cycles, other.resident)
    assert one.layers == other.layers
    assert one.cycles_source == other.cycles_source == "predicted"
    kept = [json.loads(each.to_json()) for each in reports]
    assert [each["computed_by"] for each in kept] == ["kernels", "program"]
    assert kept[0]["equality"].startswith("the program gives the same: checked when compiled: 100%")
    assert kept[1]["equality"] == ""
    text = " ".join(str(one).split())
    assert "cycles are predicted, not counted; outputs are those of the operators' kernels" in text
    assert "the program gives the same: checked when compiled: 100%" in text
    assert "cycles are predicted, not counted: this device has no clock" in str(other)


@pytest.mark.parametrize(
    ("verdict", "start"),
    [
        (None, "whether the program gives the same results was not checked"),
        (Verdict(mode="none"), "whether the program gives the same results was not checked"),
        (Verdict(mode="sample", share=0.4, stages=(2, 3)), "checked in part: checked when"),
        (Verdict(mode="sample", share=0.4, stages=(0, 0)), "the engine runs no operator"),
        (Verdict(mode="sample", share=0.4, stages=(3, 3)), "the program gives the same: "),
        (Verdict(mode="full", share=1.0, stages=(2, 3)), "the program gives the same: "),
    ],
)
def test_the_extent_of_the_check_is_printed(verdict, start):
    assert describe_equality(verdict).startswith(start)
    program = dataclasses.replace(matloom.compile(NETWORK, "nano", check="none"), verdict=verdict)
    report = make_report(program, "fast", [], kernels=True)
    assert report.equality == describe_equality(verdict)


def test_a_program_file_has_no_operators(tmp_path):
    path = tmp_path / "digits.mloom"
    matloom.compile(NETWORK, "nano").save(path)
    sentence = "device 'fast' cannot run the program 'digits': a program file has "
    with pytest.raises(DeviceError, match=sentence):
        matloom.load(path, "fast")
    assert Program.load(path).origin is None


def test_commands_of_no_session_are_executed():
    program = matloom.compile(NETWORK, "nano")
    for name in ("fast", "model"):
        driver = matloom.open_device(name, "nano")
        driver.place_regions(program.region_bytes)
        driver.write_region(Region.PROGRAM, 0, program.image)
        (step,) = (each for each in program.steps if isinstance(each, EngineStep))
        counters = driver.run(step.command_offset, step.command_bytes)
        assert counters.values["instructions"] > 10
        with pytest.raises(DeviceFaultError, match="COMMAND_RANGE"):
            driver.run(0, 0)


def test_sessions_take_turns():
    driver = matloom.open_device("fast", "nano")
    graphs = [random_network(number, SIZE) for number in (3, 4)]
    sessions = [matloom.load(graph, driver, "nano") for graph in graphs]
    alone = [matloom.load(graph, "model", "nano") for graph in graphs]
    for _ in range(2):
        for graph, shared, own in zip(graphs, sessions, alone, strict=True):
            given = {graph.tensors[at].name: array for at, array in random_inputs(graph, 5).items()}
            wanted = own.run(given)
            for name, array in shared.run(given).items():
                np.testing.assert_array_equal(array, wanted[name])


def test_limbs_are_what_sums_are_made_of():
    noise = np.random.default_rng(0).integers(-LARGEST_LIMBS + 1, LARGEST_LIMBS, 10_000)
    ends = [0, 1, -1, 127, 128, -128, -129, LARGEST_LIMBS - 1, 1 - LARGEST_LIMBS]
    sums = np.concatenate([noise, ends])
    limbs = to_limbs(sums)
    assert all(limb.min() >= -128 and limb.max() <= 127 for limb in limbs)
    np.testing.assert_array_equal(from_limbs(limbs), sums)
