"""ONNX's own node tests: where each operator runs, and whether its results are ONNX Runtime's.

    python bench/onnx_nodes.py              # all, into docs/results/onnx_nodes.json; minutes
    python bench/onnx_nodes.py --only conv  # those of such names, printed

The package onnx makes the tests in code, with inputs. Each network is compiled for `nano` and runs
on the functional model. Expected is what ONNX Runtime makes of the untouched file: integers and
floats must be equal in every bit. Where that differs from ONNX's own data, it is counted, too.
"""

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import matloom
from matloom import frontend
from matloom.errors import UserError, UserTypeError
from matloom.ir.attributes import Reference
from matloom.kernels.onnx_model import cut_model
from matloom.kernels.probe import refusals

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "docs" / "results" / "onnx_nodes.json"

#: As many are probed by one process.
BATCH = 256


def cases(only: str) -> list[Any]:
    """Return the tests whose names have a part."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [case for case in collect_testcases(None) if only in case.name]


def expected(content: bytes, inputs: dict[str, Any]) -> list[Any] | None:
    """Return what ONNX Runtime makes of a file; None where it refuses it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    onnxruntime.set_seed(0)
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        made: list[Any] = session.run(None, inputs)
    # Its errors are of its own classes.
    except Exception:
        return None
    return made


def arrays(case: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the inputs of a test by name, and ONNX's outputs."""
    given, wanted = case.data_sets[0]
    names = [value.name for value in case.model.graph.input]
    return dict(zip(names, map(as_array, given), strict=False)), list(wanted)


def as_array(value: Any) -> Any:
    """Return a scalar or a message as an array; sequences stay."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if np.isscalar(value) else value


def close(found: Any, wanted: Any, case: Any) -> bool:
    """Return whether arrays are as near as a test of ONNX asks for."""
    try:
        np.testing.assert_allclose(found, wanted, rtol=case.rtol, atol=case.atol)
    except (AssertionError, TypeError, ValueError):
        return False
    return True


def equal(found: Any, wanted: Any) -> bool:
    """Return whether arrays are equal in type, shape and every bit; not-a-number equals itself."""
    alike = (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    return alike and np.array_equal(found, wanted, equal_nan=found.dtype.kind == "f")


def probe(contents: list[bytes]) -> None:
    """Let one process try many networks: compiling finds its answers."""
    cuts = []
    for content in contents:
        try:
            graph = frontend.load(content)
        except UserError:
            continue
        for node in graph.nodes:
            if isinstance(node.attributes, Reference):
                data = graph.tensors[node.inputs[-1]].data
                assert data is not None
                cuts.append(cut_model(data.tobytes(), node.attributes))
    refusals("onnxruntime", cuts)


def outcome(case: Any, content: bytes) -> dict[str, Any]:
    """Return where a test's operators run, or the sentence that refuses it."""
    inputs, own = arrays(case)
    try:
        program = matloom.compile(content, "nano", check="none", exact=True)
        given = {info.name: np.asarray(inputs[info.name]) for info in program.inputs}
        with matloom.load(program, device="model") as session:
            made = session.run(given)
    except (UserError, UserTypeError) as error:
        return {"refused": str(error)}
    outputs = list(made.values()) if isinstance(made, dict) else [made]
    wanted = expected(content, inputs)
    where = {layer.where for layer in program.layers} - {"none"}
    opaque = any(getattr(step, "operator", "") == "REFERENCE" for step in program.steps)
    place = "onnxruntime" if opaque else "host" if where == {"host"} else "engine"
    if opaque and "engine" in where:
        place = "engine and onnxruntime"
    same = wanted is not None and all(
        a.dtype == b.dtype
        and a.shape == b.shape
        and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for a, b in zip(outputs, wanted, strict=True)
    )
    near = all(close(a, b, case) for a, b in zip(outputs, own, strict=False))
    return {"where": place, "equal": same, "as_onnx": near}


def rows(chosen: list[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each test's name and outcome."""
    for begin in range(0, len(chosen), BATCH):
        batch = chosen[begin : begin + BATCH]
        contents = [case.model.SerializeToString() for case in batch]
        probe(contents)
        for case, content in zip(batch, contents, strict=True):
            yield case.name, outcome(case, content)


def summary(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the report: how many run where, and each test that does not or that differs."""
    run = {name: row for name, row in found.items() if "where" in row}
    return {
        "onnx": onnx.__version__,
        "onnxruntime": onnxruntime.__version__,
        "tests": len(found),
        "run": dict(sorted(Counter(row["where"] for row in run.values()).items())),
        "on_the_engine": sorted(name for name, row in run.items() if "engine" in row["where"]),
        "differ": sorted(name for name, row in run.items() if not row["equal"]),
        "onnxruntime_differs_from_onnx": sorted(
            name for name, row in run.items() if row["equal"] and not row["as_onnx"]
        ),
        "refused": {name: row["refused"] for name, row in found.items() if "refused" in row},
    }


def main() -> None:
    """Run the tests, and write or print what became of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="part of a test's name")
    arguments = parser.parse_args()
    report = summary(dict(rows(cases(arguments.only))))
    text = json.dumps(report, indent=1) + "\n"
    if arguments.only:
        print(text)
    else:
        REPORT.write_text(text)


if __name__ == "__main__":
    main()
