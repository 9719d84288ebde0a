"""Constants of the host link: requests, statuses, frame fields, checksum, limits."""

import enum
from dataclasses import dataclass

#: Version of everything in this file; a host refuses boards with another one.
LINK_VERSION = 1

#: First word of the answer to a hello: "ML", "L", and the version.
LINK_IDENTITY = 0x4D4C_4C00 | LINK_VERSION

#: Default bits per second; frames have 8 data bits, no parity and one stop bit.
BAUD = 3_000_000

#: Byte that separates requests; byte stuffing keeps it out of them.
DELIMITER = 0x00

#: First byte of a reply.
SYNC = 0xA5

#: Maximum bytes of data in a frame, in either direction.
MAX_DATA_BYTES = 1024

#: Maximum number of unanswered requests; the device keeps this many statuses.
WINDOW_REQUESTS = 16

#: Bytes of unstuffed requests that the device buffers before it drops one.
BUFFER_BYTES = 2048

#: CRC-32 as in Ethernet and zlib: 0x04C11DB7, least significant bit first, complemented.
CRC_POLYNOMIAL = 0xEDB8_8320
CRC_INITIAL = 0xFFFF_FFFF
CRC_BYTES = 4

#: Value of the checksum register, not complemented, once it has processed a frame and its checksum.
CRC_RESIDUE = 0xDEBB_20E3


class Request(enum.IntEnum):
    """Kind of a request: the low four bits of its first byte. The high four count attempts."""

    READ_REGISTERS = 0
    WRITE_REGISTERS = 1
    READ_MEMORY = 2
    WRITE_MEMORY = 3
    HELLO = 4
    WAIT = 6


class Status(enum.IntEnum):
    """Result of a request on the host link."""

    OKAY = 0
    BAD_FRAME = 1
    SEQUENCE = 2
    NO_SESSION = 3
    BAD_REQUEST = 4
    BUS_ERROR = 5
    TIMEOUT = 6


@dataclass(frozen=True, kw_only=True)
class LinkField:
    """Field of a frame; integers are little-endian."""

    name: str
    bytes: int
    doc: str


def _link_fields(*rows: tuple[str, int, str]) -> tuple[LinkField, ...]:
    """Return the fields of a frame from rows of name, size in bytes and description."""
    return tuple(LinkField(name=name, bytes=size, doc=doc) for name, size, doc in rows)


def _size_bytes(fields: tuple[LinkField, ...]) -> int:
    """Return the size in bytes of consecutive fields."""
    return sum(item.bytes for item in fields)


#: Header of a request, before its data.
REQUEST_HEADER = _link_fields(
    ("kind", 1, "what is asked, and the attempt in the high four bits"),
    ("sequence", 1, "one more than that of the request before"),
    ("length", 2, "bytes that are read or written"),
    ("address", 4, "byte offset of a register, bus address, or cycles of a WAIT"),
)
REQUEST_HEADER_BYTES = _size_bytes(REQUEST_HEADER)

#: Header of a reply, before its data; a status byte and the checksum follow the data.
REPLY_HEADER = _link_fields(
    ("sync", 1, "constant"),
    ("kind", 1, "as in the request"),
    ("sequence", 1, "as in the request"),
    ("length", 2, "bytes of data"),
)
REPLY_HEADER_BYTES = _size_bytes(REPLY_HEADER)

#: Bytes of the board's name, in ASCII, padded with zeros.
BOARD_BYTES = 16

#: Data of the answer to a hello.
HELLO = _link_fields(
    ("identity", 4, "identity and version of the link"),
    ("clock_hz", 4, "clock of the engine"),
    ("config_digest", 4, "digest of the engine's configuration"),
    ("memory_base", 4, "bus address of external memory"),
    ("memory_bytes", 4, "size of external memory"),
    ("fresh", 4, "1 for the first hello since a restart, and its repetitions; else 0"),
    ("board", BOARD_BYTES, "name of the board"),
)
HELLO_BYTES = _size_bytes(HELLO)
