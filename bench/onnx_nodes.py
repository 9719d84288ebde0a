"""Runs ONNX's own tests: where each operator runs, and whether results equal ONNX Runtime's.

    python bench/onnx_nodes.py              # all, into docs/results/onnx_nodes.json; minutes
    python bench/onnx_nodes.py --only conv  # those whose name contains this, printed

The package onnx generates tests of operators with inputs, and includes small models as files. Each
network is compiled for `nano` and runs on the functional model. The expected outputs are ONNX
Runtime's for the untouched file, equal in every bit. If it refuses the file, or Python cannot
represent its arrays, ONNX's own outputs are expected, within the tolerance of its test. Cases in
which ONNX Runtime itself deviates from these are counted, too.
"""

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import matloom
from matloom.errors import UserError, UserTypeError
from matloom.frontend.onnx.model import DTYPES
from matloom.kernels.probe import keep_processes
from support.reports import parse_with_report, write_report

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "docs" / "results" / "onnx_nodes.json"
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"

#: Interpreters that run steps of the host, by the phrase that `explain` uses.
_INTERPRETERS = {"on ONNX Runtime": "onnxruntime", "on ONNX's reference": "onnx"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One of ONNX's tests: a network, its inputs by name, and the outputs that ONNX expects."""

    name: str
    content: bytes
    inputs: dict[str, Any]
    outputs: list[Any]
    rtol: float = 1e-3
    atol: float = 1e-7


def node_cases(only: str) -> Iterator[Case]:
    """Yield the tests of operators whose names contain a text."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    for case in found:
        if only in case.name:
            given, wanted = case.data_sets[0]
            names = [value.name for value in case.model.graph.input]
            yield Case(
                name=case.name,
                content=case.model.SerializeToString(),
                inputs=dict(zip(names, map(as_array, given), strict=False)),
                outputs=list(map(as_array, wanted)),
                rtol=case.rtol,
                atol=case.atol,
            )


def model_cases(only: str) -> Iterator[Case]:
    """Yield the models in files whose names contain a text; missing inputs are random."""
    for path in sorted(DATA.rglob("*.onnx")):
        name = path.stem if path.parent.name == "light" else path.parent.name
        if only not in name:
            continue
        model = onnx.load(path)
        constants = {each.name for each in model.graph.initializer}
        given = [value for value in model.graph.input if value.name not in constants]
        files = [path.parent / "test_data_set_0" / f"input_{at}.pb" for at in range(len(given))]
        recorded = all(file.exists() for file in files)
        made = path.parent.glob("test_data_set_0/output_*.pb") if recorded else []
        yield Case(
            name=name,
            content=path.read_bytes(),
            inputs={
                value.name: load_array(file) if recorded else random_array(value)
                for value, file in zip(given, files, strict=True)
            },
            outputs=[load_array(file) for file in sorted(made)],
        )


def load_array(path: Path) -> Any:
    """Return the array in a file; None if it has another type."""
    try:
        return onnx.numpy_helper.to_array(onnx.load_tensor(str(path)))
    # A sequence or an optional value is another message.
    except Exception:
        return None


def random_array(value: Any) -> Any:
    """Return a random input of a model."""
    tensor = value.type.tensor_type
    shape = [dim.dim_value or 1 for dim in tensor.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def as_array(value: Any) -> Any:
    """Convert a scalar or a tensor message to an array; return sequences unchanged."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if np.isscalar(value) else value


def expected_outputs(case: Case) -> list[Any] | None:
    """Return ONNX Runtime's outputs for a file; None if it refuses the file.

    Also None if an input or output has a type that NumPy lacks, since it gives bits for some.
    """
    graph = onnx.load_from_string(case.content).graph
    kinds = {value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)}
    if not kinds <= {*DTYPES, onnx.TensorProto.UNDEFINED}:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    onnxruntime.set_seed(0)
    try:
        session = onnxruntime.InferenceSession(
            case.content, options, providers=["CPUExecutionProvider"]
        )
        outputs: list[Any] = session.run(None, case.inputs)
    # ONNX Runtime has its own exception classes.
    except Exception:
        return None
    return outputs


def is_near(actual: Any, expected: Any, case: Case) -> bool:
    """Return whether arrays agree within the tolerance of an ONNX test."""
    try:
        # Numbers of 8 bits and fewer, and bfloat16, come out in a wider type.
        wide = expected if expected.dtype == actual.dtype else expected.astype(actual.dtype)
        np.testing.assert_allclose(actual, wide, rtol=case.rtol, atol=case.atol)
    except (AssertionError, AttributeError, TypeError, ValueError):
        return False
    return True


def is_equal(actual: Any, expected: Any) -> bool:
    """Return whether arrays are equal in type, shape and every bit; not-a-number equals itself."""
    alike = (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    return alike and np.array_equal(actual, expected, equal_nan=actual.dtype.kind == "f")


def placement(program: Any) -> str:
    """Return where a program's operators run: on the engine, the host or an interpreter."""
    where = {
        name
        for layer in program.layers
        for words, name in _INTERPRETERS.items()
        if words in layer.reason
    }
    where |= {"engine" for layer in program.layers if layer.where == "engine"}
    return " and ".join(sorted(where)) or "host"


def open_inputs(content: bytes) -> list[str]:
    """Return the names of a model's inputs that have a dimension of unknown size."""
    return [
        value.name
        for value in onnx.load_from_string(content).graph.input
        if any(dim.dim_param for dim in value.type.tensor_type.shape.dim)
    ]


def outcome(case: Case) -> dict[str, Any]:
    """Run a test; return where its operators run and whether outputs are equal.

    If the network is refused, return the error message instead.
    """
    try:
        shapes = {name: case.inputs[name].shape for name in open_inputs(case.content)}
        program = matloom.compile(
            case.content, "nano", check="none", exact=True, shapes=shapes or None
        )
        inputs = {
            info.name: np.asarray(case.inputs[info.name]).astype(info.dtype)
            for info in program.inputs
        }
        with matloom.load(program, device="model") as session:
            made = session.run(inputs)
    except (UserError, UserTypeError) as error:
        return {"refused": str(error)}
    outputs = list(made.values()) if isinstance(made, dict) else [made]
    wanted = expected_outputs(case)
    row: dict[str, Any] = {"where": placement(program)}
    if case.outputs and len(case.outputs) == len(outputs):
        row["as_onnx"] = all(
            is_near(a, b, case) for a, b in zip(outputs, case.outputs, strict=True)
        )
    if wanted is not None:
        row["equal"] = all(is_equal(a, b) for a, b in zip(outputs, wanted, strict=True))
    return row


def summary(outcomes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the report: counts of tests, and the names of those that are refused or differ.

    `outcomes` has the result of each test by name. Tests that ran are counted by where their
    operators ran: on the engine, on the host, or on an interpreter.
    """
    run = {name: row for name, row in outcomes.items() if "where" in row}
    others = {name: row for name, row in run.items() if "equal" not in row}
    return {
        "tests": len(outcomes),
        "run": dict(sorted(Counter(row["where"] for row in run.values()).items())),
        "on_the_engine": sorted(name for name, row in run.items() if "engine" in row["where"]),
        "compared_with_onnx": len(others),
        "differ": sorted(name for name, row in run.items() if row.get("equal") is False),
        "differ_from_onnx": sorted(n for n, row in others.items() if not row.get("as_onnx")),
        "onnxruntime_differs_from_onnx": sorted(
            name for name, row in run.items() if row.get("equal") and row.get("as_onnx") is False
        ),
        "refused": {name: row["refused"] for name, row in outcomes.items() if "refused" in row},
    }


def main() -> None:
    """Run the tests, and write or print the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="part of a test's name")
    chosen = parse_with_report(parser, REPORT, ("only",))
    only = chosen.only
    report: dict[str, Any] = {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}
    with keep_processes():
        report |= summary({case.name: outcome(case) for case in node_cases(only)})
        report["models"] = summary({case.name: outcome(case) for case in model_cases(only)})
    text = json.dumps(report, indent=1) + "\n"
    if chosen.report is None:
        print(text)
    write_report(chosen.report, text)


if __name__ == "__main__":
    main()
