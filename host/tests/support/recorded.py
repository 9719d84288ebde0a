"""Compares a session with outputs that interpreters gave for a collection's networks."""

from pathlib import Path

import numpy as np

from matloom.runtime import Session

__all__ = ["compare_recorded"]

#: Calls that were recorded, and how far floating-point outputs may be from the largest.
_CALLS, _MARGIN = 3, 1e-5


def compare_recorded(folder: Path, network: str, kind: str, session: Session) -> None:
    """Raise AssertionError if consecutive calls differ from the recorded ones.

    The first call loads all weights; later ones find those that stay.

    Parameters
    ----------
    folder:
        Folder of the collection.
    network:
        Source and name.
    kind:
        Interpreter: ``"tflm"`` or ``"ref"`` (LiteRT's reference kernels).
    """
    program = session.program
    with np.load(folder / "golden" / f"{network.replace('/', '__')}.npz") as golden:
        inputs = [golden[f"in{at}"] for at in range(len(program.inputs))]
        outputs = [golden[f"out{at}_{kind}"] for at in range(len(program.outputs))]
    assert len(outputs[0]) == _CALLS
    for at in range(_CALLS):
        given = {
            info.name: array[at].reshape(info.shape)
            for info, array in zip(program.inputs, inputs, strict=True)
        }
        made = session.run(given)
        for info, expected in zip(program.outputs, outputs, strict=True):
            found, wanted = made[info.name].ravel(), expected[at].ravel()
            assert found.dtype == wanted.dtype
            message = f"call {at}, output {info.name}"
            if wanted.dtype == np.float32:
                margin = _MARGIN * np.abs(wanted).max()
                np.testing.assert_allclose(found, wanted, rtol=0, atol=margin, err_msg=message)
            else:
                np.testing.assert_array_equal(found, wanted, err_msg=message)
