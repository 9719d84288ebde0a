"""The C header of registers, faults and instructions."""

import enum

from matloom.arch import boot, link
from matloom.arch.config import INTERFACE_VERSION
from matloom.arch.csr import (
    ALL_REGISTERS,
    COUNTERS,
    COUNTERS_OFFSET,
    IDENTITY,
    TIMESTAMPS_OFFSET,
    WINDOW_BYTES,
    Fault,
)
from matloom.arch.generate.guard import add_include_guard
from matloom.arch.isa import FORMATS, INSTRUCTION_WORD_BYTES, Destination, Region, Source, Table
from matloom.arch.numerics import Rounding

_NUMBERS: tuple[tuple[type[enum.IntEnum], str], ...] = (
    (Fault, "Causes in the fault record."),
    (Region, "Windows of external memory."),
    (Source, "Sources of POST's values."),
    (Destination, "Destinations of POST's results."),
    (Table, "Uses of the table by POST."),
    (Rounding, "Rounding rules of POST; some are reserved."),
)


def _enum(name: str, numbers: type[enum.IntEnum], doc: str) -> list[str]:
    """Return the lines of a C enumeration."""
    lines = ["", f"/* {doc} */", f"enum matloom_{name} {{"]
    lines += [f"  MATLOOM_{name.upper()}_{item.name} = {item.value}," for item in numbers]
    return [*lines, "};"]


def _link_lines() -> list[str]:
    """Return the lines for the host link: constants, and offsets of the fields of frames."""
    lines = [
        *_enum("link_request", link.Request, "Kinds of requests of the host link."),
        *_enum("link_status", link.Status, "Statuses of its replies."),
    ]
    lines += ["", "/* The host link: limits, checksum, byte offsets of the fields of frames. */"]
    for name in (
        *("LINK_IDENTITY", "BAUD", "DELIMITER", "SYNC", "MAX_DATA_BYTES", "WINDOW_REQUESTS"),
        *("BUFFER_BYTES", "CRC_POLYNOMIAL", "CRC_INITIAL", "CRC_BYTES", "CRC_RESIDUE"),
    ):
        lines.append(f"#define MATLOOM_LINK_{name.removeprefix('LINK_')} {getattr(link, name):#x}u")
    for frame in ("REQUEST_HEADER", "REPLY_HEADER", "HELLO"):
        prefix = f"MATLOOM_LINK_{frame.removesuffix('_HEADER')}"
        lines += _field_offsets(prefix, getattr(link, frame))
        lines.append(f"#define MATLOOM_LINK_{frame}_BYTES {_size(getattr(link, frame))}u")
    return lines


def _size(fields: tuple[link.LinkField, ...]) -> int:
    """Return the size in bytes of a frame with these fields."""
    return sum(item.bytes for item in fields)


def _field_offsets(prefix: str, fields: tuple[link.LinkField, ...]) -> list[str]:
    """Return the lines that define the byte offsets of consecutive fields."""
    return [
        f"#define {prefix}_{item.name.upper()}_OFFSET {_size(fields[:index])}u "
        f"/* {item.bytes} bytes: {item.doc} */"
        for index, item in enumerate(fields)
    ]


def _boot_lines() -> list[str]:
    """Return the lines for the boot loader: statuses, and offsets of the fields of its header."""
    return [
        *_enum("boot_status", boot.BootStatus, "Answers of the boot loader."),
        "",
        "/* The boot loader: byte offsets of the fields before an image. */",
        f"#define MATLOOM_BOOT_MAGIC {boot.BOOT_MAGIC:#x}u",
        *_field_offsets("MATLOOM_BOOT_HEADER", boot.BOOT_HEADER),
        f"#define MATLOOM_BOOT_HEADER_BYTES {boot.BOOT_HEADER_BYTES}u",
    ]


def header() -> str:
    """Return the text of ``matloom_regs.h``."""
    lines = [
        f"#define MATLOOM_IDENTITY {IDENTITY:#010x}u",
        f"#define MATLOOM_INTERFACE_VERSION {INTERFACE_VERSION}u",
        f"#define MATLOOM_WINDOW_BYTES {WINDOW_BYTES:#x}u",
        f"#define MATLOOM_TIMESTAMPS_OFFSET {TIMESTAMPS_OFFSET:#x}u",
        f"#define MATLOOM_COUNTERS_OFFSET {COUNTERS_OFFSET:#x}u",
        f"#define MATLOOM_COUNTERS {len(COUNTERS)}u",
        "",
        "/* Registers: byte offsets, and masks of fields in place. */",
    ]
    for item in ALL_REGISTERS:
        lines.append(f"#define MATLOOM_{item.name}_OFFSET {item.offset:#x}u /* {item.doc} */")
        for bits in item.fields:
            name = f"MATLOOM_{item.name}_{bits.name.upper()}"
            lines.append(f"#define {name}_SHIFT {bits.shift}u")
            lines.append(f"#define {name}_MASK {bits.mask:#x}u")
    lines += ["", "/* Counters, in the order of their registers. */", "enum matloom_counter {"]
    lines += [f"  MATLOOM_COUNTER_{name.upper()}, /* {doc} */" for name, doc in COUNTERS]
    lines.append("};")
    for numbers, doc in _NUMBERS:
        lines += _enum(numbers.__name__.lower(), numbers, doc)
    lines += [*_link_lines(), *_boot_lines()]
    lines += ["", "/* Instructions: opcode, bytes, and position and width of each field. */"]
    for layout in FORMATS.values():
        prefix, position = f"MATLOOM_{layout.opcode.name}", 0
        lines.append(f"#define {prefix}_OPCODE {int(layout.opcode)}u")
        lines.append(f"#define {prefix}_BYTES {layout.instruction_words * INSTRUCTION_WORD_BYTES}u")
        for field in layout.all_fields:
            lines.append(f"#define {prefix}_{field.name.upper()}_BIT {position}u")
            lines.append(f"#define {prefix}_{field.name.upper()}_WIDTH {field.bits}u")
            position += field.bits
    return add_include_guard("MATLOOM_REGS_H", lines)
