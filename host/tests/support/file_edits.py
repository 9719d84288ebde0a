"""Edits of Program files: of fields, records or bytes, with the checksum repaired."""

import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace

from matloom.arch.program_file import (
    DIRECTORY,
    HEADER,
    SECTIONS,
    RecordField,
    Section,
)
from matloom.program.tables import BY_NAME, BY_TAG, packer
from matloom.program.write import with_checksum, write_sections

__all__ = ["FileParts", "cut", "edit_bytes", "edit_structure"]

_NUMBERS = {
    "u32": (0, 1, 2, 15, 16, 64, 255, 65535, 2**31 - 1, 2**31, 2**32 - 16, 2**32 - 1),
    "i32": (0, 1, -1, 2, 16, 127, -128, 32768, 2**31 - 1, -(2**31)),
    "u64": (0, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1),
    "f64": (0.0, -0.0, 1.0, -1.0, 1e-45, 1e-300, 1e38, 1e300, float("inf"), float("nan")),
}


@dataclass(frozen=True, kw_only=True)
class FileParts:
    """The sections of a file, by tag: flags, number of records and bytes; and its digest."""

    sections: Mapping[int, tuple[int, int, bytes]]
    digest: int

    @classmethod
    def of(cls, data: bytes) -> "FileParts":
        """Return the parts of an intact file."""
        head, entry = packer(HEADER), packer(DIRECTORY)
        (*_rest, digest, count) = head.unpack_from(data)
        sections = {}
        for at in range(count):
            tag, flags, offset, size, records, _ = entry.unpack_from(
                data, head.size + at * entry.size
            )
            sections[tag] = (flags, records, data[offset : offset + size])
        return cls(sections=sections, digest=digest)

    def to_bytes(self) -> bytes:
        """Return a file with these parts and a good checksum."""
        return write_sections(self.sections, self.digest)

    def records(self, name: str) -> list[tuple[int | float, ...]]:
        """Return the records of a section."""
        section = BY_NAME[name]
        if section.tag not in self.sections:
            return []
        return list(packer(section.fields).iter_unpack(self.sections[section.tag][2]))

    def with_records(self, name: str, rows: list[tuple[int | float, ...]]) -> "FileParts":
        """Return the parts with other records in a section."""
        section = BY_NAME[name]
        data = b"".join(packer(section.fields).pack(*row) for row in rows)
        flags = self.sections[section.tag][0]
        return replace(self, sections={**self.sections, section.tag: (flags, len(rows), data)})

    def with_word(self, name: str, record: int, word: str, value: int | float) -> "FileParts":
        """Return the parts with a word of a record replaced."""
        rows = self.records(name)
        at = [item for item, _ in _words(BY_NAME[name])].index(word)
        rows[record] = (*rows[record][:at], value, *rows[record][at + 1 :])
        return self.with_records(name, rows)

    def with_bytes(self, name: str, data: bytes) -> "FileParts":
        """Return the parts with the contents of a section replaced."""
        tag = BY_NAME[name].tag
        flags = self.sections[tag][0]
        return replace(self, sections={**self.sections, tag: (flags, len(data), data)})


def _words(section: Section) -> list[tuple[str, str]]:
    return [word for field in section.fields for word in field.words]


def cut(data: bytes, rng: random.Random) -> bytes:
    """Return the beginning of a file, optionally with size and checksum repaired."""
    short = data[: rng.randrange(len(data))]
    if len(short) < 32 or rng.random() < 0.5:
        return short
    return with_checksum(short[:16] + struct.pack("<I", len(short)) + short[20:])


def edit_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return a file with 1 to 8 bytes changed, and a valid checksum."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        at = rng.randrange(16, len(data))
        changed[at] = rng.choice((rng.randrange(256), changed[at] ^ 1 << rng.randrange(8), 0, 255))
    return with_checksum(bytes(changed))


def edit_structure(parts: FileParts, rng: random.Random) -> bytes:
    """Return a file with 1 or 2 edits of fields or records, and a valid checksum."""
    for _ in range(rng.choice((1, 1, 1, 2))):
        if rng.random() < 0.02:
            return _edit_directory(parts, rng).to_bytes()
        parts = _edit(parts, rng)
    return parts.to_bytes()


def _edit(parts: FileParts, rng: random.Random) -> FileParts:
    filled = [
        section
        for section in SECTIONS
        if section.fields and section.tag in parts.sections and parts.sections[section.tag][1]
    ]
    kind = rng.random()
    if kind < 0.03:
        return _edit_raw(parts, rng)
    section = rng.choice(filled)
    rows = parts.records(section.name)
    at = rng.randrange(len(rows))
    if kind < 0.1:
        other = rng.randrange(len(rows))
        rows[at], rows[other] = rows[other], rows[at]
    elif kind < 0.14:
        rows.insert(rng.randrange(len(rows) + 1), rows[at])
    elif kind < 0.18:
        del rows[at]
    else:
        rows[at] = _edited(section, rows, at, rng)
    return parts.with_records(section.name, rows)


def _edited(
    section: Section, rows: list[tuple[int | float, ...]], at: int, rng: random.Random
) -> tuple[int | float, ...]:
    """Return a record with one word replaced."""
    words = [(field, kind) for field in section.fields for _name, kind in field.words]
    word = rng.randrange(len(words))
    field, kind = words[word]
    value = _value(field, kind, [row[word] for row in rows], rows[at][word], rng)
    return (*rows[at][:word], value, *rows[at][word + 1 :])


def _value(
    field: RecordField, kind: str, others: list[int | float], now: int | float, rng: random.Random
) -> int | float:
    """Return a value near a limit, from another record, near the old one, or random."""
    choices: list[int | float] = [*_NUMBERS[kind], rng.choice(others), now + 1, now - 1]
    choices += [now * 2, now + 64, now - 64]
    for limit in (field.low, field.high):
        if limit is not None:
            choices += [limit, limit - 1, limit + 1]
    value = rng.choice(choices)
    if kind == "f64":
        return float(value)
    bits, signed = int(kind[1:]), kind[0] == "i"
    value = int(value) & ((1 << bits) - 1)
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _edit_directory(parts: FileParts, rng: random.Random) -> FileParts:
    """Return the parts with a section removed, its tag or flags changed, or another digest."""
    sections = dict(parts.sections)
    tag = rng.choice(list(sections))
    how = rng.randrange(5)
    if how == 0:
        del sections[tag]
    elif how == 1:
        sections[rng.choice((0, 20, 21, 99, *BY_TAG))] = sections.pop(tag)
    elif how == 2:
        sections[tag] = (rng.choice((0, 1, 2, 2**32 - 1)), *sections[tag][1:])
    elif how == 3:
        flags, count, data = sections[tag]
        count = rng.choice((0, count + 1, max(count - 1, 0), 2**31, 2**32 - 1))
        sections[tag] = (flags, count, data)
    else:
        return replace(parts, digest=parts.digest ^ 1 << rng.randrange(32))
    return replace(parts, sections=sections)


def _edit_raw(parts: FileParts, rng: random.Random) -> FileParts:
    """Return the parts with bytes of strings, image or host data changed, added or removed."""
    name = rng.choice([section.name for section in SECTIONS if not section.fields])
    data = bytearray(parts.sections[BY_NAME[name].tag][2])
    how = rng.randrange(3)
    if how == 0:
        data += bytes(rng.choice((1, 16, 64)))
    elif how == 1:
        del data[len(data) - rng.choice((1, 16, 64)) :]
    elif data:
        data[rng.randrange(len(data))] = rng.randrange(256)
    return parts.with_bytes(name, bytes(data))
