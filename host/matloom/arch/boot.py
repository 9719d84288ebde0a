"""Constants of the boot loader: the header of an image, and the statuses it answers with."""

import enum

from matloom.arch.link import LinkField

#: First word of a header: "MLBT".
BOOT_MAGIC = 0x5442_4C4D

#: First bytes of an answer, before its status.
BOOT_REPLY = b"MLB"


class BootStatus(enum.IntEnum):
    """Result of sending an image: the letter that ends the boot loader's answer."""

    READY = ord("R")
    OKAY = ord("K")
    LENGTH = ord("L")
    CHECKSUM = ord("C")


#: Fields of the header that precedes an image; integers are little-endian.
BOOT_HEADER = (
    LinkField(name="magic", bytes=4, doc="constant"),
    LinkField(name="length", bytes=4, doc="bytes of the image"),
    LinkField(name="checksum", bytes=4, doc="CRC-32 over the bytes of the length and the image"),
)
BOOT_HEADER_BYTES = sum(item.bytes for item in BOOT_HEADER)
