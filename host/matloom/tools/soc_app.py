"""Builds an image of a network for the system on chip, which runs it without a host."""

import tempfile
from pathlib import Path

from matloom.errors import UserError
from matloom.program import Program
from matloom.toolchain.firmware import FIRMWARE
from matloom.toolchain.soc_firmware import compile_image
from matloom.tools.c_names import buffer_names
from matloom.tools.emit_c import write_c

#: C name of the network in the image.
_NAME = "network"


#: Default application for `network_image`.
MEASURE = FIRMWARE / "examples" / "measure" / "main.c"


def network_image(program: Program, main: Path = MEASURE) -> bytes:
    """Return an image for the boot ROM: driver, kernels, and a program with one input and output.

    Parameters
    ----------
    main
        The application in C. It can use the same macros for the network as ``measure/main.c``.

    Raises
    ------
    EmitError
        A step of the host has no kernel in C.
    ToolError
        No compiler is installed.
    ValueError
        The program does not have exactly one input and one output.
    """
    if len(program.inputs) != 1 or len(program.outputs) != 1:
        raise UserError(
            "a network that runs alone must have one input and one output, "
            f"not {len(program.inputs)} and {len(program.outputs)}",
            hint="compile it with --emit c for firmware of your own (docs/firmware.md)",
        )
    examples = FIRMWARE / "examples"
    with tempfile.TemporaryDirectory(prefix="matloom-app-") as scratch:
        source = Path(scratch) / f"{_NAME}.c"
        write_c(program, source)
        buffers = buffer_names(program, _NAME)
        words = {
            "HEADER": f'"{_NAME}.h"',
            "NETWORK": _NAME,
            "INPUT": buffers[program.inputs[0].key],
            "OUTPUT": buffers[program.outputs[0].key],
        }
        # Definitions for this file only, because the driver uses the same words.
        application = Path(scratch) / "application.c"
        lines = [f"#define {word} {value}" for word, value in words.items()]
        application.write_text("\n".join([*lines, f'#include "{main}"', ""]))
        folders = [f"-I{examples}", f"-I{MEASURE.parent}"]
        driver = sorted((FIRMWARE / "driver").glob("*.c"))
        kernels = sorted((FIRMWARE / "kernels").glob("*.c"))
        parts = (path for path in (*driver, *kernels) if path.name != "checksum.c")
        return compile_image(
            (application, source, "soc/system.c", "soc/port.c", *parts), "soc/app.ld", folders
        )
