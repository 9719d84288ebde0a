"""Stand-alone networks on the system on chip: outputs and cycles."""

import numpy as np
import pytest

import matloom
from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.arch.soc import region
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from matloom.device.soc import SocChip
from matloom.kernels.interpreter import interpret
from matloom.toolchain.soc_firmware import FIRMWARE
from matloom.tools.soc_app import network_image

pytest.importorskip("pythondata_cpu_vexriscv", reason="needs a processor: extra soc")
pytest.importorskip("ziglang", reason="needs a compiler: extra firmware")

pytestmark = pytest.mark.slow

CONFIG = PRESETS["nano"]

#: What an application says first; the simulated system's clock is a megahertz.
BANNER = f"matloom on simulation: digest, hertz, memory {CONFIG.digest:08x} {1_000_000:08x} "

#: Results of the driver (enum matloom_result), as matloom.h has them.
OK, TIMEOUT = 0, 27

#: Of the RISC-V privileged architecture.
ILLEGAL_INSTRUCTION = 2


def said(chip, data, count):
    """Send bytes, and return the answer as lines."""
    text, begin = b"", chip.cycles
    chip.send(data)
    while text.count(b"\n") < count:
        assert chip.cycles < begin + 30_000_000, text
        chip.run(10_000)
        text += chip.receive()
    return text.decode().splitlines()


def check(path, inputs, expected):
    """Compare outputs with the expected ones, and the engine's cycles with device="rtl"."""
    program = compile_network(frontend.load(path), CONFIG, check="none")
    with SocChip(CONFIG) as chip, matloom.load(program, device="rtl") as alone:
        chip.load(network_image(program))
        banner, ready = said(chip, b"", 2)
        assert banner.startswith(BANNER)
        assert ready == "ready"
        for each, wanted in zip(inputs, expected, strict=True):
            output, engine, processor = said(chip, each.tobytes(), 3)
            assert bytes.fromhex(output) == wanted.tobytes()
            alone.run(each)
            assert int(engine.split()[1]) == pytest.approx(alone.report().cycles, rel=0.03)
            # Registers, copies of input and output, and what of the network runs on the processor.
            assert 0 < int(processor.split()[1]) < 100_000


def test_digits():
    """The second run finds its weights in the scratchpad."""
    graph = frontend.load(NETWORK)
    inputs = np.random.default_rng(6).integers(-128, 128, (2, 1, 8, 8, 1), np.int8)
    check(
        NETWORK,
        inputs,
        [interpret(graph, {graph.inputs[0]: each})[graph.outputs[0]] for each in inputs],
    )


@pytest.mark.parametrize("name", ["kws_ref_model", "pretrainedResnet_quant"])
def test_collection(name, models):
    """Recorded inputs give TensorFlow Lite Micro's outputs."""
    with np.load(models / "golden" / f"mlperf_tiny__{name}.npz") as golden:
        inputs, expected = golden["in0"][:2], golden["out0_tflm"][:2]
    check(models / "models" / "mlperf_tiny" / f"{name}.tflite", inputs, expected)


def test_failures_and_traps_are_reported():
    """An unused address, a run that takes too long, an interrupt, an illegal instruction."""
    program = compile_network(frontend.load(NETWORK), CONFIG, check="none")
    with SocChip(CONFIG) as chip:
        chip.load(network_image(program, FIRMWARE / "tests" / "soc_faults.c"))
        banner, *lines = said(chip, b"", 12)
    assert banner.startswith(BANNER)
    words = [line.split() for line in lines]
    assert [(word, int(number, 16)) for word, number in words[:9]] == [
        *(("hole", False), ("register", True), ("identity", True)),
        *(("probe", OK), ("open", OK), ("run", TIMEOUT), ("reset", OK), ("run", OK)),
        ("await", True),
    ]
    assert words[9] == []
    trap, cause, address, instruction = words[10]
    assert (trap, int(cause, 16), int(instruction, 16)) == ("trap", ILLEGAL_INSTRUCTION, 0)
    assert region("MEMORY").base < int(address, 16) < region("MEMORY").base + (1 << 20)


def test_several_inputs_are_refused():
    class Program:
        inputs, outputs = (1, 2), (1,)

    with pytest.raises(ValueError, match="one input and one output, not 2 and 1"):
        network_image(Program())
