"""Reads the header, the directory and the tables of a Program file, checked by the schema."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.arch.config import INTERFACE_VERSION
from matloom.arch.program_file import (
    DIRECTORY,
    FILE_LIMIT,
    FORMAT_VERSION,
    HEADER,
    MAGIC,
    REQUIRED,
    SECTIONS,
    RecordField,
    Section,
)
from matloom.program.errors import ProgramError
from matloom.program.tables import BY_TAG, array_type, packer

_Array = npt.NDArray[Any]

#: Sections whose every record must belong to exactly one range, so that none is read twice.
_LISTS = ("integers", "floats", "bindings", "repeats", "spans", "attributes")
#: Offset after the magic bytes and the version of the format.
_VERSION_END = len(MAGIC) + 4
#: Largest alignment of a section in bytes, which padding stays below.
_MOST_PADDING = 64


@dataclass(frozen=True, kw_only=True)
class Sections:
    """Sections of a program file by name, as arrays of records or bytes; the header's digest."""

    tables: dict[str, _Array]
    bytes: dict[str, bytes]
    digest: int


def read_sections(data: bytes) -> Sections:
    """Return the sections of a file; raise `ProgramError` if they break the format's rules."""
    digest, count = _read_header(data)
    tables: dict[str, _Array] = {}
    raw: dict[str, bytes] = {}
    for section, offset, size in _read_directory(data, count):
        if section.fields:
            records = size // section.record_bytes
            tables[section.name] = np.frombuffer(data, array_type(section), records, offset)
        else:
            raw[section.name] = data[offset : offset + size]
    for section in SECTIONS:
        if section.name in tables or section.name in raw:
            continue
        if not section.optional:
            raise ProgramError(f"a program must have the section {section.name}, which is absent")
        tables[section.name] = np.empty(0, array_type(section))
    used = dict.fromkeys(_LISTS, 0)
    for section in SECTIONS:
        for field in section.fields:
            _check_field(section, field, tables, used)
    _check_values(tables, used)
    for name, total in used.items():
        if total != tables[name].size:
            raise ProgramError(
                f"all {tables[name].size} {name} must belong to one record each, not {total}"
            )
    return Sections(tables=tables, bytes=raw, digest=digest)


_DAMAGED_HINT = "the file is damaged: copy it again, or compile its network again"


def _read_header(data: bytes) -> tuple[int, int]:
    """Return the digest and the number of sections; raise `ProgramError` for a bad header."""
    size = packer(HEADER).size
    if data[:8] != MAGIC[: len(data)]:
        raise ProgramError(
            f"a program must begin with {MAGIC!r}, not {data[:8]!r}",
            hint="matloom compile NET -o NET.mloom writes one",
        )
    version = int.from_bytes(data[len(MAGIC) : _VERSION_END], "little")
    if len(data) >= _VERSION_END and version != FORMAT_VERSION:
        older = version < FORMAT_VERSION
        raise ProgramError(
            f"the program has format {version}, from {'an older' if older else 'a newer'} Matloom; "
            f"this one reads {FORMAT_VERSION}",
            hint="compile its network again" if older else "update Matloom",
        )
    if len(data) < size:
        raise ProgramError(f"a program must have {size} bytes or more, not {len(data)}")
    if len(data) > FILE_LIMIT:
        raise ProgramError(f"a program must have at most {FILE_LIMIT} bytes, not {len(data)}")
    _, _, checksum, total, interface, digest, count = packer(HEADER).unpack_from(data)
    if total != len(data):
        raise ProgramError(
            f"a program must have {total} bytes, not {len(data)}", hint=_DAMAGED_HINT
        )
    found = zlib.crc32(memoryview(data)[16:])
    if found != checksum:
        raise ProgramError(
            f"a program's checksum must be {checksum:08x}, not {found:08x}", hint=_DAMAGED_HINT
        )
    if interface != INTERFACE_VERSION:
        raise ProgramError(
            f"the program is for chips of interface version {interface}, and this Matloom makes "
            f"version {INTERFACE_VERSION}",
            hint="compile its network again",
        )
    return digest, count


def _read_directory(data: bytes, count: int) -> list[tuple[Section, int, int]]:
    """Return the sections that the schema knows, with their offsets and sizes in bytes."""
    entry, at = packer(DIRECTORY), packer(HEADER).size
    end, last = at + count * entry.size, 0
    if end > len(data):
        raise ProgramError(f"a directory of {count} sections must fit {len(data)} bytes, not {end}")
    found = []
    for number in range(count):
        tag, flags, offset, size, records, record = entry.unpack_from(data, at)
        at += entry.size
        name = f"section {tag}" if tag not in BY_TAG else f"section {tag} ({BY_TAG[tag].name})"
        if tag <= last:
            raise ProgramError(f"tag {number} must be above {last}, not {tag}")
        if flags not in (0, REQUIRED):
            raise ProgramError(f"{name}: flags must be 0 or {REQUIRED}, not {flags}")
        alignment = BY_TAG[tag].alignment if tag in BY_TAG else 8
        if offset % alignment or not 0 <= offset - end < _MOST_PADDING:
            raise ProgramError(
                f"{name} must begin at the next multiple of {alignment} from {end} on, not {offset}"
            )
        if data[end:offset].strip(b"\0"):
            raise ProgramError(f"{name} must have zeros before it")
        end, last = offset + size, tag
        if end > len(data):
            raise ProgramError(f"{name} must end by byte {len(data)}, not {end}")
        if tag not in BY_TAG:
            if flags & REQUIRED:
                raise ProgramError(f"{name} must be known, and this version does not know it")
            continue
        _check_entry(BY_TAG[tag], name, size, records, record)
        found.append((BY_TAG[tag], offset, size))
    if end != len(data):
        raise ProgramError(f"the last section must end at byte {len(data)}, not {end}")
    return found


def _check_entry(section: Section, name: str, size: int, records: int, record: int) -> None:
    """Raise `ProgramError` unless a section has the size and the number of records it may have."""
    if record != section.record_bytes:
        raise ProgramError(
            f"{name} must have records of {section.record_bytes} bytes, not {record}"
        )
    if size != records * record:
        raise ProgramError(f"{name} must have {records * record} bytes, not {size}")
    if not section.least <= records <= section.most:
        raise ProgramError(
            f"{name} must have {section.least} to {section.most} records, not {records}"
        )


def _check_field(
    section: Section, field: RecordField, tables: dict[str, _Array], used: dict[str, int]
) -> None:
    """Check a field in all records of a section; count records that it refers to in `used`.

    The number of records in its ranges is added to the entry of `used` for their section.
    """
    table = tables[section.name]
    if table.size == 0:
        return
    if field.type == "range":
        counts = table[f"{field.name}_count"]
        _require(section, field, counts, 0, field.high)
        if field.of is not None:
            firsts = table[f"{field.name}_first"].astype(np.int64)
            length = tables[field.of].size
            _require(section, field, firsts + counts, 0, length, f"end by {field.of} {length}")
            used[field.of] += int(counts.sum(dtype=np.int64))
        return
    values = table[field.name]
    if field.type == "text":
        length = tables["texts"].size
        _require(section, field, values, 0, length - 1, f"be one of {length} texts")
    elif field.low is not None:
        rule = f"be one of {', '.join(field.choices)}" if field.choices else ""
        _require(section, field, values, field.low, field.high, rule)


def _require(
    section: Section,
    field: RecordField,
    values: _Array,
    low: float | None,
    high: float | None,
    rule: str = "",
) -> None:
    """Raise `ProgramError` for the first of `values` outside `low` to `high`, such as NaN."""
    good = (values >= low) & (values <= high)
    if not good.all():
        at = int(np.argmin(good))
        rule = rule or (f"be {low} to {high}" if low != high else f"be {low}")
        raise ProgramError(
            f"{section.name}[{at}]: {field.name} must {rule}, not {values[at].item()}"
        )


def _check_values(tables: dict[str, _Array], used: dict[str, int]) -> None:
    """Check the values of attributes, in the section of their kind; count them in `used`.

    The number of these values is added to the entries of `used`.
    """
    pools: Sequence[str | None] = (
        *(None, "integers", "integers", "floats", "texts", "integers", "texts"),
    )
    for name in ("configuration", "attributes"):
        table = tables[name]
        for kind, pool in enumerate(pools):
            found = table[table["kind"] == kind]
            counts = found["values_count"].astype(np.int64)
            length = 0 if pool is None else tables[pool].size
            ends = found["values_first"] + counts if pool is not None else counts
            if ends.size and int(ends.max()) > length:
                raise ProgramError(
                    f"values of {name} must end by {pool or 'value'} {length}, not {ends.max()}"
                )
            if pool in used:
                used[pool] += int(counts.sum())
            elif pool == "texts" and int(counts.sum()) > length:
                raise ProgramError(
                    f"values of {name} must be at most {length} texts, not {counts.sum()}"
                )
