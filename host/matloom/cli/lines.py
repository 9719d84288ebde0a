"""Commands for a board on a serial line: check-board, boot."""

from pathlib import Path

import click

from matloom.cli.group import cli
from matloom.cli.say import say
from matloom.errors import UserError, reason

#: Form of a serial port's address, as in --device.
_PORT = click.argument("device", metavar="uart:PORT[@BAUD]")


def _require_port(device: str) -> None:
    """Raise `UserError` unless a device is written as ``uart:PORT[@BAUD]``."""
    if not device.startswith("uart:"):
        hint = f"write uart:{device}" if device.startswith("/dev/") else "write uart:/dev/ttyUSB0"
        raise UserError(f"a board must be at uart:PORT[@BAUD], not {device!r}", hint=hint)


@cli.command("check-board", examples=("matloom check-board uart:/dev/ttyUSB0",))
@_PORT
@click.option(
    "--bytes",
    "tested",
    type=click.IntRange(4096),
    default=1 << 18,
    show_default=True,
    help="Number of bytes of the board's memory to write and read back; their contents are lost.",
)
def check_board(device: str, tested: int) -> None:
    """Identify the board on a serial line; test its memory.

    If bytes come back wrong, it fails and names the first of them.
    """
    from matloom.device.board_check import check_memory, describe
    from matloom.device.open import board_transport
    from matloom.terminal.progress import progress

    _require_port(device)
    transport = board_transport(device)
    try:
        for line in describe(transport.hello):
            say(line)
        with progress("testing its memory"):
            found = check_memory(transport, tested)
        say(found.summary)
    finally:
        transport.close()
    if not found.is_correct:
        raise UserError(found.fault, hint="check its memory's pins and clock in the board's file")


@cli.command(
    examples=(
        "matloom boot uart:/dev/ttyUSB0 net.bin",
        "matloom boot uart:/dev/ttyUSB0",
    ),
)
@_PORT
@click.argument("image", type=click.Path(path_type=Path), required=False)
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 100_000),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds to wait for an answer; a simulation may need minutes.",
)
def boot(device: str, image: Path | None, timeout: float) -> None:
    """Send IMAGE to the boot ROM of a system on chip.

    IMAGE is a file that `matloom compile NET --emit soc` writes, or firmware of your own. Without
    IMAGE, it sends the server of the host link.
    """
    from matloom.device.boot import send_image
    from matloom.device.serial_port import SerialStream, parse_address
    from matloom.toolchain.soc_firmware import link_server

    _require_port(device)
    address = parse_address(device)
    try:
        data = image.read_bytes() if image else b""
    except OSError as error:
        raise UserError(
            f"cannot read {image}: {reason(error)}",
            hint="matloom compile NET --emit soc writes an image",
        ) from None
    stream = SerialStream(*address)
    try:
        # Compiled once the port is known to exist.
        data = data if image else link_server()
        attempts = send_image(stream, data, timeout)
    finally:
        stream.close()
    say(f"{len(data)} bytes started, sent {attempts} times")
