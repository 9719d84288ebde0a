"""Host side of the boot loader, which sends an image until it arrives intact."""

import zlib

from matloom.arch.boot import BOOT_MAGIC, BOOT_REPLY, BootStatus
from matloom.device.errors import DeviceError, DeviceTimeoutError
from matloom.device.link import Stream

#: Number of attempts to send an image.
_MAX_ATTEMPTS = 4

#: Seconds allowed for the USB bridge, the operating system and the checksum, in addition to the
#: time on the line.
_ANSWER_SECONDS = 0.5

_BITS_PER_BYTE = 10


def send_image(stream: Stream, image: bytes, silence: float = _ANSWER_SECONDS) -> int:
    """Send an image to a boot loader, which then starts it; return the number of attempts.

    Parameters
    ----------
    silence:
        Seconds to wait for an answer after all bytes were sent, before assuming that some were
        lost.

    Raises
    ------
    DeviceTimeoutError
        Nothing answers.
    DeviceError
        The image is too large for the loader's memory, or arrives damaged every time.
    """
    size = len(image).to_bytes(4, "little")
    checksum = zlib.crc32(size + image).to_bytes(4, "little")
    frame = BOOT_MAGIC.to_bytes(4, "little") + size + checksum + image
    # This many zeros complete any image that lost bytes, even of its header.
    padding = bytes(len(frame))
    status = None
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        for data in (frame, padding):
            stream.write(data)
            answer = _next_status(stream, silence + len(data) * _BITS_PER_BYTE / stream.baud)
            status = answer or status
            if answer is not None:
                break
        if answer is BootStatus.OKAY:
            return attempt
    if status is None:
        raise DeviceTimeoutError(
            f"nothing answers at {stream.name} ({_MAX_ATTEMPTS} attempts)",
            hint="reset the board, so that its boot ROM waits for an image; check the port",
        )
    raise DeviceError(
        f"the boot loader at {stream.name} refused an image of {len(image):,} bytes: {status.name}",
        hint="send an image of matloom compile --emit soc for this board; reset it and try again",
    )


def _next_status(stream: Stream, seconds: float) -> BootStatus | None:
    """Return the boot loader's next status other than READY; None after `seconds`."""
    came, deadline = bytearray(), stream.now() + seconds
    statuses = {int(status): status for status in BootStatus if status is not BootStatus.READY}
    while stream.now() < deadline:
        came += stream.read(deadline - stream.now())
        while (start := came.find(BOOT_REPLY)) >= 0 and len(came) > start + len(BOOT_REPLY):
            status = statuses.get(came[start + len(BOOT_REPLY)])
            del came[: start + len(BOOT_REPLY)]
            if status is not None:
                return status
    return None
