"""Exports 20 networks of PyTorch, quantises them, and compares each with the runtime it came from.

    python bench/exported.py                 # all of them that are not in the report yet
    python bench/exported.py lstm gru --config reference --again

Each network is loaded as a program of torch.export, and as the file that
torch.onnx.export(dynamo=True) writes: both are compared with PyTorch. ONNX Runtime's static
quantiser then makes a QDQ network of uint8 and a QOperator network of int8 of the file. These and
the file are compared with ONNX Runtime, on random inputs for each preset in CONFIGS, on the model
and on the chip.

Needs torch and onnxscript. Every row goes into docs/results/exported.json as soon as it is there.
"""

import json
import logging
import tempfile
from pathlib import Path

import click
import numpy as np
import onnx
import onnxruntime
import torch
from exported_networks import NETWORKS, network
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

import matloom
from matloom.kernels.onnx_sessions import onnx_session
from support.reports import read_report, report_path, write_report

#: Presets that the networks are compiled for.
CONFIGS = ("nano", "small", "reference")
REPORT = Path(__file__).parents[1] / "docs" / "results" / "exported.json"
#: Forms of quantised networks, and their activations.
FORMS = {"QDQ": quantization.QuantType.QUInt8, "QOperator": quantization.QuantType.QInt8}
#: Inputs that ranges are taken from, and inputs on the model and on the chip.
CALIBRATION, SAMPLES, CHIP_SAMPLES = 32, 100, 3


def random_inputs(path, count, seed):
    """Return `count` random inputs for a model file, each a dict of arrays by name."""
    draw = np.random.default_rng(seed)
    (value,) = onnx.load(path).graph.input
    kind = value.type.tensor_type
    shape = [dim.dim_value for dim in kind.shape.dim]
    if kind.elem_type == onnx.TensorProto.FLOAT:
        return [{value.name: draw.standard_normal(shape).astype(np.float32)} for _ in range(count)]
    return [{value.name: draw.integers(0, 20, shape)} for _ in range(count)]


class Calibration(quantization.CalibrationDataReader):
    """Inputs from which ONNX Runtime's quantiser takes the ranges of tensors."""

    def __init__(self, path):
        self._given = iter(random_inputs(path, CALIBRATION, 1))

    def get_next(self):
        """Return the next input; None after the last."""
        return next(self._given, None)


def quantise(path, form):
    """Quantise a network in form ``QDQ`` or ``QOperator``; return the path of the new file."""
    prepared, made = path.with_suffix(".prepared.onnx"), path.with_suffix(f".{form}.onnx")
    quant_pre_process(path, prepared, skip_symbolic_shape=True)
    quantization.quantize_static(
        prepared,
        made,
        Calibration(prepared),
        quant_format=quantization.QuantFormat[form],
        per_channel=True,
        activation_type=FORMS[form],
        weight_type=quantization.QuantType.QInt8,
    )
    return made


def relative_error(actual, expected):
    """Return the largest difference of any output, divided by that output's largest magnitude."""
    assert len(actual) == len(expected)
    return max(
        float(np.abs(one.astype(np.float64) - two).max() / np.abs(two).max())
        for one, two in zip(actual, expected, strict=True)
    )


def compare(program, device, inputs, expected):
    """Run a program on each of `inputs`, and compare its outputs with `expected`.

    Returns the number of samples, how many are equal, and the largest relative error.
    """
    with matloom.load(program, device=device) as session:
        found = [
            relative_error(list(session.run(one).values()), two)
            for one, two in zip(inputs, expected, strict=True)
        ]
    return {"samples": len(found), "equal": found.count(0.0), "largest": max(found)}


def compare_with_onnx_runtime(path, config, *, exact):
    """Compare a model file with ONNX Runtime on random inputs, on the model and on the chip.

    Returns the comparisons by device, and the network's MACs. `exact` is as in `matloom.compile`.
    """
    given = random_inputs(path, SAMPLES, 7)
    session = onnx_session(path.read_bytes())
    wanted = [session.run(None, each) for each in given]
    program = matloom.compile(path, config, exact=exact)
    return {
        "macs": program.macs,
        "engine_macs": program.engine_macs,
        "model": compare(program, "model", given, wanted),
        "rtl": compare(program, "rtl", given[:CHIP_SAMPLES], wanted[:CHIP_SAMPLES]),
    }


def kernel_error(source, inputs, expected):
    """Return the relative error of a network run with the operators' kernels in NumPy."""
    with matloom.load(source, device="fast", config="nano", check="none") as session:
        names = [info.name for info in session.program.inputs]
        return relative_error(list(session.run({names[0]: inputs}).values()), expected)


def measure(name, configs=CONFIGS):
    """Return a row of the report: errors in floating point, and the comparisons for each preset."""
    made, given = network(name)
    with torch.no_grad():
        wanted = made(given)
    wanted = [each.numpy() for each in (wanted if isinstance(wanted, tuple) else [wanted])]
    row = {"error": kernel_error(torch.export.export(made, (given,)), given.numpy(), wanted)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        torch.onnx.export(made, (given,), path, dynamo=True, verbose=False, external_data=False)
        row["file_error"] = kernel_error(path, given.numpy(), wanted)
        files = {form: quantise(path, form) for form in FORMS}
        for config in configs:
            row[config] = {"float": compare_with_onnx_runtime(path, config, exact=False)}
            for form, file in files.items():
                row[config][form] = {
                    "default": compare_with_onnx_runtime(file, config, exact=False),
                    "exact": compare_with_onnx_runtime(file, config, exact=True),
                }
    return row


@click.command()
@click.argument("names", nargs=-1)
@click.option("--config", "configs", multiple=True, default=CONFIGS, show_default=True)
@click.option("--report", "given", type=click.Path(path_type=Path), help="The JSON to renew.")
@click.option("--again", is_flag=True, help="Measure again what the report already has.")
def main(names, configs, given, *, again):
    """Measure networks by name, or all of them, and write each row into the report.

    Without --report, a part of them is only printed.
    """
    logging.disable(logging.WARNING)
    versions = {"torch": torch.__version__, "onnxruntime": onnxruntime.__version__}
    path = report_path(given, REPORT, whole=not names and configs == CONFIGS)
    report = read_report(path)
    if not report.items() >= versions.items():
        report = {**versions, "rows": {}}
    for name in names or NETWORKS:
        row = report["rows"].setdefault(name, {})
        if missing := [config for config in configs if again or config not in row]:
            row |= measure(name, missing)
            print(name, json.dumps(row), flush=True)
            write_report(path, json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
