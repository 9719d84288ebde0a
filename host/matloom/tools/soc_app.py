"""A network as an image for the system on chip, which then runs it with no host."""

import tempfile
from pathlib import Path

from matloom.program import Program
from matloom.toolchain.soc_firmware import FIRMWARE, image
from matloom.tools.emit_c import write_c

__all__ = ["network_image"]

#: The name of the network in C, which nothing shows.
_NAME = "network"


def network_image(program: Program) -> bytes:
    """Return an image for the boot ROM: driver, kernels, and a program of one input and one output.

    What it reads from the line and says there is in ``firmware/examples/measure/main.c``.

    Errors
    ------
    EmitError
        A step of the host has no kernel in C.
    ToolError
        There is no compiler, or no clone.
    ValueError
        The program has several inputs or outputs.
    """
    if len(program.inputs) != 1 or len(program.outputs) != 1:
        raise ValueError(
            "a network that runs alone must have one input and one output, "
            f"not {len(program.inputs)} and {len(program.outputs)}"
        )
    examples = FIRMWARE / "examples"
    with tempfile.TemporaryDirectory(prefix="matloom-app-") as scratch:
        source = Path(scratch) / f"{_NAME}.c"
        write_c(program, source)
        words = {
            "HEADER": f'"{_NAME}.h"',
            "NETWORK": _NAME,
            "INPUT": f"{_NAME}_{program.inputs[0].name}",
            "OUTPUT": f"{_NAME}_{program.outputs[0].name}",
        }
        # Definitions for this file alone: they are words of the driver's, too.
        main = Path(scratch) / "application.c"
        lines = [f"#define {word} {value}" for word, value in words.items()]
        main.write_text("\n".join([*lines, '#include "main.c"', ""]))
        folders = [f"-I{examples}", f"-I{examples / 'measure'}"]
        driver = sorted((FIRMWARE / "driver").glob("*.c"))
        kernels = sorted((FIRMWARE / "kernels").glob("*.c"))
        parts = (path for path in (*driver, *kernels) if path.name != "checksum.c")
        return image((main, source, "soc/system.c", *parts), "soc/app.ld", folders)
