"""Networks of the collections: outputs equal those that ONNX Runtime gave."""

import numpy as np
import pytest

import matloom
from matloom.tools.bench import collection

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT


def names():
    """Return the names of the networks in the ONNX collection."""
    folder = collection("onnx")
    files = [] if folder is None else sorted((folder / "models").rglob("*.onnx"))
    return [path.relative_to(folder / "models").with_suffix("").as_posix() for path in files]


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("name", names() or [None])
def test_recorded_outputs(name, onnx_networks):
    """Integers behind quantised outputs are equal, floats within 1e-5 of the largest."""
    dims = {"unk__68": 1} if "static_qdq" in name else None
    path = onnx_networks / "models" / f"{name}.onnx"
    with np.load(onnx_networks / "golden" / f"{name.replace('/', '__')}.npz") as golden:
        given = [golden[f"in{at}"] for at in range(len(golden["in_names"]))]
        wanted = [golden[f"out{at}_ort"] for at in range(len(golden["out_names"]))]
        ends = golden["in_names"].tolist(), golden["out_names"].tolist()
    with matloom.load(path, device="model", config="nano", dims=dims) as session:
        for at in range(len(given[0])):
            found = session.run(dict(zip(ends[0], (each[at] for each in given), strict=True)))
            found = found if isinstance(found, dict) else {ends[1][0]: found}
            for output, arrays in zip(ends[1], wanted, strict=True):
                off = np.abs(found[output] - arrays[at]).max()
                assert off <= (0 if "micro_kws" in name else 1e-5 * np.abs(arrays[at]).max())


#: Quantised networks of the collections: the file, and sizes of its dimensions.
QUANTISED = {
    "onnx/tum_ei_eda/micro_kws_m_static_qdq": {"unk__68": 1},
    "onnx/tum_ei_eda/micro_kws_m_static_qoperator": None,
    "models/mlperf_results/kai_jiang_v1.3_int8_onnx/kws_ref_model": None,
    "models/mlperf_results/kai_jiang_v1.3_int8_onnx/resnet": None,
    "models/derived_onnx/alibaba_kws_qop_u8s8_pc": None,
    "models/derived_onnx/resnet8_qop_s8s8_pc": None,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUANTISED)
def test_recorded_outputs_on_the_chip(name, folder_of):
    kind, _, network = name.partition("/")
    folder = folder_of(kind)
    path = folder / "models" / f"{network}.onnx"
    with np.load(folder / "golden" / f"{network.replace('/', '__')}.npz") as golden:
        (key,) = {"out0_ort", "out0_ortall"} & {*golden.files}
        given, wanted = golden["in0"][:3], golden[key]
    with matloom.load(path, device="rtl", config="nano", dims=QUANTISED[name]) as session:
        layers = session.program.layers
        assert all(layer.where != "host" or not layer.macs for layer in layers)
        kinds = [layer.operator for layer in layers]
        # ONNX Runtime wants channels in front, where it has an average between layers.
        if not any("Average" in kind for kind in kinds):
            assert kinds.count("TRANSPOSE") == 0
        for at, x in enumerate(given):
            np.testing.assert_array_equal(session.run(x), wanted[at])
