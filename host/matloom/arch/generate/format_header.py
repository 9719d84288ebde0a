"""C header of Program files: positions of all fields, and the limits that a loader checks."""

import struct

from matloom.arch.generate.guard import add_include_guard
from matloom.arch.program_file import (
    ALIGNMENT,
    CONFIGURATION,
    CONFIGURATION_FIELDS,
    CONSTANT_ALIGNMENT,
    DIRECTORY,
    DTYPES,
    FILE_LIMIT,
    FORMAT_VERSION,
    HEADER,
    MAGIC,
    OPERATORS,
    REGION_LIMIT,
    REQUIRED,
    SECTIONS,
    STEP_KINDS,
    TENSOR_LIMIT,
    TENSORS_LIMIT,
    Kind,
    RecordField,
    Section,
)

_LIMITS = {
    "FORMAT_VERSION": FORMAT_VERSION,
    "MAGIC_LOW": int.from_bytes(MAGIC[:4], "little"),
    "MAGIC_HIGH": int.from_bytes(MAGIC[4:], "little"),
    "ALIGNMENT": ALIGNMENT,
    "CONSTANT_ALIGNMENT": CONSTANT_ALIGNMENT,
    "REQUIRED": REQUIRED,
    "LIMIT": FILE_LIMIT,
    "REGION_LIMIT": REGION_LIMIT,
    "TENSOR_LIMIT": TENSOR_LIMIT,
    "TENSORS_LIMIT": TENSORS_LIMIT,
}
_U32, _I32 = (0, (1 << 32) - 1), (-(1 << 31), (1 << 31) - 1)


def _offsets(name: str, fields: tuple[RecordField, ...]) -> list[str]:
    """Return the lines that define the byte offset of each field of a record, and its size."""
    lines, at = [], 0
    for field in fields:
        lines.append(
            f"#define MATLOOM_FILE_{name}_{field.name.upper()}_OFFSET {at}u /* {field.type} */"
        )
        at += field.bytes
    return [*lines, f"#define MATLOOM_FILE_{name}_BYTES {at}u"]


def _enum(name: str, doc: str, values: dict[str, int]) -> list[str]:
    """Return the lines of a C enumeration with a comment."""
    lines = ["", f"/* {doc} */", f"enum matloom_{name} {{"]
    lines += [f"  MATLOOM_{name.upper()}_{key.upper()} = {value}," for key, value in values.items()]
    return [*lines, "};"]


def _limit_words(field: RecordField) -> tuple[int, int] | None:
    """Return two words that describe a field's limits; None if it has none.

    They are the smallest and the largest value. For ``f64``, they are the low and the high half of
    the largest value, and the smallest is 0. For ``text`` and ``u64``, both are 0, because readers
    know the limits.
    """
    low, high = field.low, field.high
    if low is None or high is None:
        return (0, 0) if field.type == "text" else None
    if field.type == "f64":
        if low != 0:
            raise ValueError(f"{field.name}: the least value must be 0, not {low}")
        bits = struct.unpack("<Q", struct.pack("<d", high))[0]
        return bits & _U32[1], bits >> 32
    if field.type == "u64":
        if (low, high) != (0, (1 << 63) - 1):
            raise ValueError(f"{field.name}: values must fit 63 bits")
        return 0, 0
    if field.type != "range" and (low, high) in (_U32, _I32):
        return None
    return int(low) & _U32[1], int(high) & _U32[1]


def _field_rows(section: Section) -> list[str]:
    """Return the rows of the table of limits for the fields of a section."""
    rows, at = [], 0
    for field in section.fields:
        words = _limit_words(field)
        free = field.type == "range" and field.of is None
        if words is not None and not free:
            of = "NONE" if field.of is None else field.of.upper()
            low, high = (f"{word:#x}u" for word in words)
            rows.append(
                f"X({section.name.upper()}, {at}u, {field.type.upper()}, {of}, {low}, {high})"
            )
        at += field.bytes
    return rows


def _table(name: str, doc: str, rows: list[str]) -> list[str]:
    """Return the lines of a macro that applies X to each row of a table."""
    body = [f"  {row} \\" for row in rows[:-1]] + [f"  {rows[-1]}"]
    return ["", f"/* {doc} */", f"#define MATLOOM_{name}(X) \\", *body]


def _section_row(section: Section) -> str:
    """Return the row of a section in the table of sections: sizes, counts and alignment."""
    values = (section.record_bytes, section.least, section.most, section.alignment)
    numbers = ", ".join(f"{value}u" for value in values)
    return f"X({section.name.upper()}, {numbers}, {int(section.optional)})"


def _dtype_bytes() -> str:
    """Return the size in bytes of an element of each dtype, as C constants in a row."""
    sizes = (int("".join(filter(str.isdigit, dtype)) or 8) // 8 for dtype in DTYPES)
    return ", ".join(f"{size}u" for size in sizes)


def format_header() -> str:
    """Return the text of ``matloom_format.h``."""
    lines = [
        "/* Program files: version, limits, and byte offsets of the fields of records. */",
    ]
    lines += [f"#define MATLOOM_FILE_{name} {value:#x}u" for name, value in _LIMITS.items()]
    lines += _offsets("HEADER", HEADER) + _offsets("DIRECTORY", DIRECTORY)
    for section in SECTIONS:
        if section.fields:
            lines += _offsets(section.name.upper(), section.fields)
    lines += _enum(
        "section", "Tags of sections.", {"none": 0, **{item.name: item.tag for item in SECTIONS}}
    )
    lines.append(f"#define MATLOOM_SECTIONS {len(SECTIONS) + 1}u /* tags, with 0 for none */")
    rows = [_section_row(section) for section in SECTIONS]
    doc = "Sections: name, record bytes, least and most records, alignment, whether optional."
    lines += _table("SECTION_TABLE", doc, rows)
    rows = [row for section in SECTIONS for row in _field_rows(section)]
    doc = "Fields with limits: section, offset, type, section of a range, two words of limits."
    lines += _table("FIELD_TABLE", doc, rows)
    lines += _enum("dtype", "Element types.", {name: at for at, name in enumerate(DTYPES)})
    lines.append(f"#define MATLOOM_DTYPE_BYTES {_dtype_bytes()}")
    lines += _enum("step", "Where steps run.", {name: at for at, name in enumerate(STEP_KINDS)})
    lines += _enum("kind", "How values of attributes are kept.", {k.name: int(k) for k in Kind})
    keys = {item.name: item.key for item in CONFIGURATION}
    lines += _enum("configuration", "Keys of fields of the configuration.", keys)
    lines.append(f"#define MATLOOM_CONFIGURATION_FIELDS {CONFIGURATION_FIELDS}u /* at least */")
    added = len(CONFIGURATION) - CONFIGURATION_FIELDS
    lines.append(f"#define MATLOOM_CONFIGURATION_ADDED {added}u /* more, at most */")
    operators = {item.name: item.number for item in OPERATORS}
    lines += _enum("operator", "Operators of host steps.", operators)
    return add_include_guard("MATLOOM_FORMAT_H", lines)
