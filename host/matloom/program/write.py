"""Writer of a Program file."""

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from matloom.arch.config import ADDED_FIELDS, INTERFACE_VERSION, Config
from matloom.arch.isa import Region
from matloom.arch.memory import REFERENCE_MEMORY, Memory
from matloom.arch.program_file import (
    ATTRIBUTES,
    CHECKS,
    CONFIGURATION,
    DIRECTORY,
    DTYPES,
    FORMAT_VERSION,
    HEADER,
    MAGIC,
    PLACES,
    REQUIRED,
    SECTIONS,
    STEP_KINDS,
    Attribute,
    Kind,
    Section,
)
from matloom.program.contents import Contents
from matloom.program.errors import ProgramError
from matloom.program.records import (
    Binding,
    EngineStep,
    HostConstant,
    HostStep,
    LayerInfo,
    Repeat,
    TensorInfo,
    VariableInfo,
    Verdict,
)
from matloom.program.tables import BY_NAME, OPERATOR_BY_NAME, attributes_of, packer

_Row = tuple[int | float, ...]


def write(program: Contents) -> bytes:
    """Return the bytes of a program file; `validate` must accept the program.

    Raises
    ------
    ProgramError
        A value does not fit its field.
    """
    writer = _Writer(program)
    found: dict[int, tuple[int, int, bytes]] = {}
    for section in SECTIONS:
        if not section.fields:
            data = writer.bytes[section.name]
            found[section.tag] = (REQUIRED, len(data), data)
        elif writer.rows[section.name] or not section.optional:
            rows = writer.rows[section.name]
            flags = 0 if section.ignorable else REQUIRED
            found[section.tag] = (flags, len(rows), _pack(section, rows))
    return write_sections(found, program.config.digest)


def write_sections(sections: Mapping[int, tuple[int, int, bytes]], digest: int) -> bytes:
    """Return a file with these sections; each has, by tag, flags, number of records, and bytes."""
    head, entry = packer(HEADER), packer(DIRECTORY)
    known = {section.tag: section for section in SECTIONS}
    body = bytearray(head.size + len(sections) * entry.size)
    for at, (tag, (flags, count, data)) in enumerate(sorted(sections.items())):
        section = known.get(tag)
        body.extend(bytes(-len(body) % (section.alignment if section else 8)))
        record_bytes = section.record_bytes if section else 1
        place = head.size + at * entry.size
        entry.pack_into(body, place, tag, flags, len(body), len(data), count, record_bytes)
        body.extend(data)
    magic = int.from_bytes(MAGIC, "little")
    row = (magic, FORMAT_VERSION, 0, len(body), INTERFACE_VERSION, digest, len(sections))
    head.pack_into(body, 0, *row)
    return with_checksum(bytes(body))


def with_checksum(data: bytes) -> bytes:
    """Return a file's bytes with the checksum of the header filled in."""
    return data[:12] + struct.pack("<I", zlib.crc32(memoryview(data)[16:])) + data[16:]


def _pack(section: Section, rows: Sequence[_Row]) -> bytes:
    """Return the records of a section in bytes; raise `ProgramError` if a number does not fit."""
    pack = packer(section.fields).pack
    try:
        return b"".join(pack(*row) for row in rows)
    except struct.error as error:
        raise ProgramError(f"{section.name} must fit their fields: {error}") from None


def _stored_fields(config: Config) -> list[Attribute]:
    """Return the fields of a configuration that a file stores."""
    fields = list(CONFIGURATION)
    while getattr(config, fields[-1].python) == ADDED_FIELDS.get(fields[-1].name):
        fields.pop()
    return fields


class _Writer:
    """Collects the rows of each section of a program file from the contents of a program."""

    def __init__(self, program: Contents) -> None:
        self.rows: dict[str, list[_Row]] = {name: [] for name in BY_NAME}
        self._strings = bytearray()
        self._texts: dict[str, int] = {}
        self._tensors = {info.key: at for at, info in enumerate(program.tensors)}
        self._operands = {item.name: -1 - at for at, item in enumerate(program.constants)}
        self._operands = {**self._tensors, **self._operands}
        self._add_network(program)
        for attribute in _stored_fields(program.config):
            value = getattr(program.config, attribute.python)
            self.rows["configuration"].append(self._attribute_record(attribute, value))
        for info in program.tensors:
            self._add_tensor(info)
        self.rows["ends"] = [
            (at, self._text(info.name)) for at, info in enumerate(program.tensors) if info.unique
        ]
        for constant in program.constants:
            self._add_constant(constant)
        for step in program.steps:
            self._add_step(step)
        for layer in program.layers:
            self._add_layer(layer)
        for variable in program.variables:
            self._add_variable(variable)
        self.rows["preprocessing"] = [
            (self._tensors[item.tensor], self._text(item.definition))
            for item in program.preprocessing
        ]
        if program.verdict is not None:
            self._add_verdict(program.verdict)
        if program.memory != REFERENCE_MEMORY:
            self._add_memory(program.memory)
        self.bytes = {
            "strings": bytes(self._strings),
            "image": program.image,
            "host_data": program.host_data,
        }

    def _text(self, value: str, *, once: bool = False) -> int:
        """Return the index of a text in section `texts`, after adding it unless it is there.

        With `once`, it is added in any case, for a single use.
        """
        if once or value not in self._texts:
            try:
                raw = value.encode()
            except UnicodeEncodeError:
                raise ProgramError(f"a text must be Unicode, not {value!r}") from None
            self.rows["texts"].append((len(self._strings), len(raw)))
            self._strings.extend(raw + b"\0")
            number = len(self.rows["texts"]) - 1
            if once:
                return number
            self._texts[value] = number
        return self._texts[value]

    def _add_list(self, pool: str, values: Sequence[int | float]) -> tuple[int, int]:
        """Add numbers to a section of numbers; return the index of the first, and their count."""
        first = len(self.rows[pool])
        self.rows[pool].extend((value,) for value in values)
        return first, len(values)

    def _add_network(self, program: Contents) -> None:
        """Add the record of the network: name, inputs, outputs, sizes of regions."""
        inputs, outputs = (
            self._add_list("integers", [self._tensors[info.key] for info in side])
            for side in (program.inputs, program.outputs)
        )
        sizes = [program.region_bytes.get(region, 0) for region in Region]
        row = (self._text(program.name), *inputs, *outputs, *sizes, 0)
        self.rows["network"].append(row)

    def _add_tensor(self, info: TensorInfo) -> None:
        """Add the record of a tensor."""
        shape = self._add_list("integers", info.shape)
        quantisation = info.quantised
        scale, zero = (
            (0.0, 0) if quantisation is None else (quantisation.scale, quantisation.zero_point)
        )
        dtype = DTYPES.index(info.dtype)
        row = (self._text(info.key), dtype, *shape, scale, zero, int(quantisation is not None))
        self.rows["tensors"].append(row)

    def _add_constant(self, constant: HostConstant) -> None:
        """Add the record of a constant."""
        self.rows["constants"].append(
            (
                self._text(constant.name),
                DTYPES.index(constant.dtype),
                *self._add_list("integers", constant.shape),
                *self._add_list("floats", constant.scales),
                *self._add_list("integers", constant.zero_points),
                constant.offset,
                -1 if constant.axis is None else constant.axis,
            )
        )

    def _add_bindings(self, bindings: Sequence[Binding]) -> tuple[int, int]:
        """Add the records of bindings; return the index of the first, and their count."""
        first = len(self.rows["bindings"])
        for item in bindings:
            row = (self._tensors[item.name], int(item.region), item.offset, 0)
            self.rows["bindings"].append(row)
        return first, len(bindings)

    def _add_step(self, step: EngineStep | HostStep) -> None:
        """Add the record of a step."""
        rows = self.rows[f"{step.kind}_steps"]
        self.rows["steps"].append((STEP_KINDS.index(step.kind), len(rows)))
        if isinstance(step, HostStep):
            rows.append(self._host_step_record(step))
            return
        inputs, outputs = self._add_bindings(step.inputs), self._add_bindings(step.outputs)
        head = (step.command_offset, step.command_bytes, *inputs, *outputs, step.predicted_cycles)
        rows.append((*head, *self._add_repeat(step.repeat)))

    def _add_repeat(self, repeat: Repeat | None) -> tuple[int, int]:
        """Add the record of commands for later calls; return its index, and 1, or 0 without any."""
        first = len(self.rows["repeats"])
        if repeat is None:
            return first, 0
        spans = (len(self.rows["spans"]), len(repeat.kept))
        self.rows["spans"].extend(repeat.kept)
        head = (repeat.command_offset, repeat.command_bytes, repeat.predicted_cycles)
        self.rows["repeats"].append((*head, *spans))
        return first, 1

    def _host_step_record(self, step: HostStep) -> _Row:
        """Return the record of a host step, after adding those of its attributes."""
        operator = OPERATOR_BY_NAME[step.operator]
        first = len(self.rows["attributes"])
        for attribute in attributes_of(operator, ATTRIBUTES):
            value = step.attributes[attribute.python]
            self.rows["attributes"].append(self._attribute_record(attribute, value))
        return (
            operator.number,
            self._text(step.reason),
            *self._add_list("integers", [self._operands[name] for name in step.inputs]),
            *self._add_list("integers", [self._tensors[name] for name in step.outputs]),
            *(first, len(operator.attributes)),
        )

    def _attribute_record(self, attribute: Attribute, value: Any) -> _Row:
        """Return the record of an attribute's value; add the value's elements to their section."""
        if value is None:
            return attribute.key, Kind.NONE, 0, 0
        if attribute.name == "padding":
            value = tuple(value[edge] for edge in ("top", "bottom", "left", "right"))
        many = isinstance(value, tuple | list)
        values = list(value) if many else [value]
        if Kind.TEXTS in attribute.kinds or Kind.TEXT in attribute.kinds:
            first = len(self.rows["texts"])
            for item in values:
                self._text(item, once=True)
            return attribute.key, Kind.TEXTS if many else Kind.TEXT, first, len(values)
        if attribute.choices:
            values = [attribute.choices.index(item) for item in values]
        if isinstance(value, float):
            return attribute.key, Kind.FLOAT, *self._add_list("floats", values)
        kind = Kind.BOOLEAN if isinstance(value, bool) else Kind.INTEGER
        return attribute.key, Kind.INTEGERS if many else kind, *self._add_list("integers", values)

    def _add_layer(self, layer: LayerInfo) -> None:
        """Add the record of the report on an operator."""
        names = self._text(layer.name), self._text(layer.operator)
        numbers = PLACES.index(layer.where), layer.timestamp, layer.macs
        cycles = layer.predicted_cycles, layer.repeat_cycles
        texts = self._text(layer.reason), self._text(layer.mode)
        self.rows["layers"].append((*names, *numbers, *cycles, layer.tensor_bytes, *texts))

    def _add_variable(self, variable: VariableInfo) -> None:
        """Add the record of a variable."""
        place = self._add_bindings([] if variable.place is None else [variable.place])
        numbers = self._tensors[variable.before], self._tensors[variable.after]
        row = (self._text(variable.name), *numbers, variable.initial, *place)
        self.rows["variables"].append(row)

    def _add_memory(self, memory: Memory) -> None:
        """Add the record of a memory."""
        row = (memory.rate.numerator, memory.rate.denominator, memory.read_latency)
        more = (memory.write_latency, memory.outstanding, memory.row_bytes, memory.row_miss_cycles)
        self.rows["memory"].append((*row, *more, 0))

    def _add_verdict(self, verdict: Verdict) -> None:
        """Add the record of the result of the compiler's check."""
        numbers = CHECKS.index(verdict.mode), verdict.calls, verdict.seed, verdict.share
        row = (*numbers, *verdict.stages)
        self.rows["verdict"].append((*row, self._text(verdict.fallback), verdict.tiles))
