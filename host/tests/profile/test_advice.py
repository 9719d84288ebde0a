"""Advice: ranked, with gains that the recommended change reaches."""

import advice as bench
import pytest

from matloom import frontend
from matloom.arch.config import load_config
from matloom.arch.memory import load_memory
from matloom.compiler import CompileOptions, compile_network
from matloom.data.digits import NETWORK
from matloom.profile import advice as advising
from matloom.profile.advice import AdviceOptions
from matloom.profile.page import to_html
from matloom.profile.profile import make_profile
from matloom.report import make_report


def compiler(config, memory, effort):
    options = CompileOptions(effort=effort, memory=memory)
    return compile_network(frontend.load(NETWORK), config, options, check="none")


def advice_of(config, memory=None, again=compiler):
    program = compiler(load_config(config), load_memory(memory), 1)
    report = make_report(program, "model", [])
    return program, make_profile(program, report, advise=AdviceOptions(compile_again=again)).advice


def test_the_first_line_predicts_its_gain():
    """At nano the array is the limit; the advised command line reaches the stated gain."""
    program, lines = advice_of("nano")
    assert [line.after for line in lines] == sorted(line.after for line in lines)
    first = lines[0]
    assert first.how.startswith("--config ")
    other = compiler(load_config(first.how.removeprefix("--config ")), program.memory, 1)
    assert first.after == other.predicted_cycles
    assert first.before == program.predicted_cycles
    assert {line.needs for line in lines} == {"engine"}


def test_weights_that_stay_are_the_first_advice_where_they_cost_most():
    program, lines = advice_of("reference", again=None)
    assert program.repeat is not None
    assert lines[0].needs == "nothing"
    assert lines[0].after == program.repeat.predicted_cycles


def test_a_large_network_is_compiled_again_if_asked(monkeypatch):
    """By default its instructions are timed, and changes that need others are named only."""
    program, lines = advice_of("nano")
    monkeypatch.setattr(advising, "_COMPILED_AGAIN", 0)
    report = make_report(program, "model", [])
    quick, thorough = (
        make_profile(program, report, advise=AdviceOptions(compile_again=compiler, thorough=each))
        for each in (False, True)
    )
    assert "8 columns of the array, not 4" in quick.untried
    methods = [line.method for line in quick.advice]
    assert methods[0] == "compiled again with the change"
    assert quick.advice[0] in thorough.advice
    monkeypatch.setattr(advising, "_FIRST_COMPILED", 0)
    timed = make_profile(program, report, advise=AdviceOptions(compile_again=compiler)).advice
    assert {line.method for line in timed} == {"the same instructions, timed with the change"}
    assert quick.untried[0] in to_html(quick)
    assert {line.title for line in quick.advice}.isdisjoint(quick.untried)
    assert thorough.untried == ()
    assert thorough.advice == lines


def test_without_a_compiler_instructions_are_timed_with_the_change():
    _program, lines = advice_of("nano", "sdram-16", again=None)
    methods = {line.method for line in lines}
    assert "the same instructions, timed with the change" in methods
    assert "compiled again with the change" not in methods
    assert any(line.needs == "memory" for line in lines)


@pytest.mark.parametrize("memory", ["on-chip", "reference"])
def test_nothing_is_advised_that_is_there_already(memory):
    _program, lines = advice_of("nano", memory, again=None)
    fast = memory == "on-chip"
    assert not (fast and any("answers after" in line.title for line in lines))
    assert all(line.gain >= 0.01 for line in lines)


#: Networks of both collections whose first advice is carried out on the chip.
CARRIED_OUT = (
    *("ad01_int8", "kws_ref_model", "str_ww_ref_model", "micro_speech_quantized"),
    *("ptq_mnist_lenet-300-100", "mnist_arduino_q", "trained_lstm_int8", "hey_jarvis"),
    *("dtln_noise_suppression", "keyword_spotting_heygecko", "keyword_spotting_mobilenetv2"),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", CARRIED_OUT)
def test_the_chip_gains_what_the_first_line_predicts(name, models, wild):
    path = next(each for folder in (models, wild) for each in folder.rglob(f"{name}.tflite"))
    ((_name, line, gain),) = bench.measure_advice([path], load_config("nano"), 3_000_000)
    assert bench.is_true(line, gain), (line.sentence(), gain)
