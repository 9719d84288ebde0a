"""The examples run, and print what they promise."""

import importlib.util
from pathlib import Path

import pytest
from click.testing import CliRunner

from matloom.arch.config import load_config

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

#: Arguments of each run, and a sentence of what it prints.
RUNS = {
    "product": (["--config", "nano"], "sums: int32 (100, 30), equal to NumPy's"),
    "attention": (["--config", "nano", "--size", "8"], "values: equal to the definition"),
    "transformer": (["--config", "nano", "--epochs", "1", "--count", "1"], "is taken for a"),
    "decoder": (
        ["--config", "nano", "--steps", "2", "--count", "2"],
        "bytes of weights take the bus",
    ),
    "your_network": (["--config", "nano"], "output probabilities: int8 (1, 10)"),
    "your_configuration": ([], "your own: 4x8, 65,536 bytes of scratchpad"),
    "own_operator": (["--config", "nano"], "RELU runs on the engine"),
    "graph_by_hand": (["--config", "nano"], "equal to the definition of CONV_2D"),
    "reading_counters": (["--config", "nano"], "exec_stream: a vector entered the array"),
    "frame_by_frame": (["--count", "2"], "state: 152 bytes (v0 8, v1 24, v2 84, v3 36)"),
    "accuracy": (["--config", "nano", "--count", "30"], "top1 "),
    "image_in_front": (["--config", "nano"], "20 of 20 photos classified right"),
    "sound_in_front": (["--config", "nano"], "4000 Hz is high"),
    "run_network": (["--device", "model", "--count", "2"], "a handwritten"),
}
#: Those that take more than a few CPU seconds.
LONG = {"decoder", "transformer"}
CASES = [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in RUNS]


def run(name, arguments):
    """Return the output of an example."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    result = CliRunner().invoke(example.main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("name", CASES)
def test_an_example_runs(name):
    if name in ("accuracy", "image_in_front", "run_network", "transformer"):
        pytest.importorskip("sklearn", reason="the digits are scikit-learn's: extra demo")
    if name == "own_operator":
        pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    arguments, sentence = RUNS[name]
    assert sentence in run(name, arguments)


@pytest.mark.slow
def test_the_decoder_knows_its_text():
    output = run("decoder", ["--prompt", "Beautiful is", "--count", "40"])
    assert "Beautiful is better than ugly.\nExplicit is better" in output


@pytest.mark.slow
def test_a_configuration_of_ones_own_is_generated(tmp_path):
    output = run("your_configuration", ["--output", str(tmp_path / "chip")])
    assert "chip/matloom.v" in output
    config = load_config(tmp_path / "chip" / "config.json")
    assert (config.rows, config.columns) == (4, 8)


def test_every_example_runs_and_is_listed():
    files = {path.stem for path in EXAMPLES.glob("*.py")}
    assert files == set(RUNS)
    text = (EXAMPLES / "README.md").read_text()
    assert all(f"`{name}.py`" in text for name in files)
