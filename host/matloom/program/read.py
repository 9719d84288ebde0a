"""Reader of a Program file, which converts the records of its sections to contents."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

from matloom.arch.config import Config
from matloom.arch.isa import Region
from matloom.arch.memory import REFERENCE_MEMORY, Memory
from matloom.arch.program_file import (
    ATTRIBUTES,
    CHECKS,
    CONFIGURATION,
    CONFIGURATION_FIELDS,
    DTYPES,
    PLACES,
    SECTIONS,
    STEP_KINDS,
    Attribute,
    Kind,
)
from matloom.program.contents import Contents
from matloom.program.errors import ProgramError
from matloom.program.records import (
    Binding,
    EngineStep,
    HostConstant,
    HostStep,
    LayerInfo,
    PreprocessInfo,
    Quantised,
    Repeat,
    TensorInfo,
    VariableInfo,
    Verdict,
)
from matloom.program.sections import Sections, read_sections
from matloom.program.tables import OPERATOR_BY_NUMBER, attributes_of, names

_Row = dict[str, Any]
_Kind = TypeVar("_Kind", bound=Contents)
_LISTS = (Kind.INTEGERS, Kind.TEXTS)
_PADDING_EDGES = ("top", "bottom", "left", "right")


def read(data: bytes, kind: type[_Kind]) -> _Kind:
    """Return the contents of a file as a `kind`; `validate` checks whether the parts fit together.

    Raises
    ------
    ProgramError
        The file is damaged, has another version, or has a value outside its limits.
    """
    return _Reader(read_sections(data)).contents(kind)


class _Reader:
    """Converter of the tables of a program file to objects."""

    def __init__(self, sections: Sections) -> None:
        self._bytes, self._digest = sections.bytes, sections.digest
        tables = sections.tables
        self._integers: list[int] = tables["integers"]["value"].tolist()
        self._floats: list[float] = tables["floats"]["value"].tolist()
        self._tables: dict[str, list[_Row]] = {
            section.name: [
                dict(zip(names(section), row, strict=True)) for row in tables[section.name].tolist()
            ]
            for section in SECTIONS
            if section.fields and section.name not in ("integers", "floats")
        }
        self._texts = self._read_texts()
        self._tensors = [self._tensor(row) for row in self._tables["tensors"]]
        for row in self._tables["ends"]:
            self._read_end(row)
        self._constants = [self._constant(row) for row in self._tables["constants"]]
        self._bindings = [self._binding(row) for row in self._tables["bindings"]]

    def contents(self, kind: type[_Kind]) -> _Kind:
        """Return the contents as an object of the class `kind`."""
        (network,) = self._tables["network"]
        config = self._config()
        verdicts = [self._verdict(row) for row in self._tables["verdict"]]
        return kind(
            name=self._texts[network["name"]],
            config=config,
            image=self._bytes["image"],
            region_bytes={region: network[f"{region.name.lower()}_bytes"] for region in Region},
            inputs=self._objects(network, "inputs", self._info),
            outputs=self._objects(network, "outputs", self._info),
            tensors=tuple(self._tensors),
            steps=self._steps(),
            layers=tuple(self._layer(row) for row in self._tables["layers"]),
            variables=tuple(self._variable(row) for row in self._tables["variables"]),
            constants=tuple(self._constants),
            host_data=self._bytes["host_data"],
            verdict=verdicts[0] if verdicts else None,
            memory=self._memory(),
            preprocessing=tuple(self._preprocess(row) for row in self._tables["preprocessing"]),
        )

    def _read_texts(self) -> list[str]:
        """Return the texts of the file; raise `ProgramError` if the section is damaged."""
        strings, end, texts = self._bytes["strings"], 0, []
        for at, row in enumerate(self._tables["texts"]):
            if row["offset"] != end:
                raise ProgramError(f"texts[{at}]: offset must be {end}, not {row['offset']}")
            begin, end = end, end + row["bytes"] + 1
            if end > len(strings) or strings[end - 1]:
                raise ProgramError(
                    f"texts[{at}] must have a zero within {len(strings)} bytes of strings, "
                    f"at {end - 1}"
                )
            try:
                texts.append(strings[begin : end - 1].decode())
            except UnicodeDecodeError:
                raise ProgramError(
                    f"texts[{at}] must be UTF-8, not {strings[begin : end - 1][:40]!r}"
                ) from None
        if end != len(strings):
            raise ProgramError(f"strings must have {end} bytes, not {len(strings)}")
        return texts

    def _list(self, row: _Row, name: str, pool: Sequence[Any]) -> tuple[Any, ...]:
        """Return a list of a record, which is stored as a part of the section `pool`."""
        first = row[f"{name}_first"]
        return tuple(pool[first : first + row[f"{name}_count"]])

    def _objects(self, row: _Row, name: str, find: Callable[[int], Any]) -> tuple[Any, ...]:
        """Return the objects that `find` returns for the numbers of a list of a record."""
        return tuple(find(number) for number in self._list(row, name, self._integers))

    def _info(self, number: int) -> TensorInfo:
        """Return the tensor of a number; raise `ProgramError` if there is none."""
        if not 0 <= number < len(self._tensors):
            raise ProgramError(
                f"an input or output must be one of {len(self._tensors)} tensors, not {number}"
            )
        return self._tensors[number]

    def _operand(self, number: int) -> str:
        """Return the key of a tensor or, for a negative number, the name of a constant."""
        if number >= 0:
            return self._info(number).key
        if -1 - number >= len(self._constants):
            raise ProgramError(
                f"an input must be one of {len(self._constants)} constants, not {-1 - number}"
            )
        return self._constants[-1 - number].name

    def _config(self) -> Config:
        """Return the configuration of the file; raise `ProgramError` if it is not valid."""
        rows = self._tables["configuration"]
        fields = CONFIGURATION[: max(len(rows), CONFIGURATION_FIELDS)]
        values = self._values("configuration", rows, fields)
        try:
            config = Config(**values)
        except ValueError as error:
            raise ProgramError(f"a program's configuration must be valid: {error}") from None
        if config.digest != self._digest:
            raise ProgramError(
                f"a program's digest must be its configuration's {config.digest:08x}, "
                f"not {self._digest:08x}"
            )
        return config

    def _memory(self) -> Memory:
        """Return the memory of the file, or the reference memory if it has none."""
        for row in self._tables["memory"]:
            rate = Fraction(row["bytes_numerator"], row["bytes_denominator"])
            names = ("read_latency", "write_latency", "outstanding", "row_bytes", "row_miss_cycles")
            try:
                return Memory(bytes_per_cycle=rate, **{name: row[name] for name in names})
            except ValueError as error:
                raise ProgramError(f"a program's memory must be valid: {error}") from None
        return REFERENCE_MEMORY

    def _values(
        self, owner: str, rows: Sequence[_Row], attributes: Sequence[Attribute]
    ) -> dict[str, Any]:
        """Return attributes by name; raise `ProgramError` unless the records have exactly these."""
        keys, wanted = [row["key"] for row in rows], [item.key for item in attributes]
        if keys != wanted:
            raise ProgramError(f"{owner} must have the attributes {wanted}, not {keys}")
        return {
            item.python: self._value(f"{owner}: {item.name}", row, item)
            for row, item in zip(rows, attributes, strict=True)
        }

    def _value(self, subject: str, row: _Row, attribute: Attribute) -> Any:
        """Return the value of an attribute; raise `ProgramError` if its kind or value is bad."""
        kind = Kind(row["kind"])
        if kind not in attribute.kinds:
            names = ", ".join(item.name for item in attribute.kinds)
            raise ProgramError(f"{subject} must be of kind {names}, not {kind.name}")
        if kind is Kind.NONE:
            return None
        pool: Sequence[Any] = self._integers
        if kind in (Kind.TEXT, Kind.TEXTS):
            pool = self._texts
        elif kind is Kind.FLOAT:
            pool = self._floats
        values = self._list(row, "values", pool)
        count = attribute.count if kind in _LISTS else 1
        if count is not None and len(values) != count:
            raise ProgramError(f"{subject} must have {count} values, not {len(values)}")
        values = tuple(_check_value(subject, value, attribute, kind) for value in values)
        if attribute.name == "padding":
            return dict(zip(_PADDING_EDGES, values, strict=True))
        return values if kind in _LISTS else values[0]

    def _tensor(self, row: _Row) -> TensorInfo:
        """Return the tensor of a record."""
        quantised = None
        if row["quantised"]:
            quantised = Quantised(scale=row["scale"], zero_point=row["zero_point"])
        elif row["scale"] or row["zero_point"]:
            raise ProgramError(f"a tensor must be quantised to have a scale, not {row['scale']}")
        return TensorInfo(
            name=self._texts[row["name"]],
            shape=self._list(row, "shape", self._integers),
            dtype=DTYPES[row["dtype"]],
            quantised=quantised,
        )

    def _read_end(self, row: _Row) -> None:
        """Set the user-visible name of an input or output of the network; its own stays the key."""
        info, name = self._info(row["tensor"]), self._texts[row["name"]]
        if name == info.key:
            raise ProgramError(f"the name of an input or output must not be its tensor's, {name!r}")
        self._tensors[row["tensor"]] = replace(info, name=name, unique=info.key)

    def _constant(self, row: _Row) -> HostConstant:
        """Return the constant of a record."""
        return HostConstant(
            name=self._texts[row["name"]],
            offset=row["offset"],
            shape=self._list(row, "shape", self._integers),
            dtype=DTYPES[row["dtype"]],
            scales=self._list(row, "scales", self._floats),
            zero_points=self._list(row, "zero_points", self._integers),
            axis=None if row["axis"] < 0 else row["axis"],
        )

    def _binding(self, row: _Row) -> Binding:
        """Return the binding of a record: where a tensor is in external memory."""
        info = self._info(row["tensor"])
        return Binding(
            name=info.key,
            region=Region(row["region"]),
            offset=row["offset"],
            shape=info.shape,
            dtype=info.dtype,
        )

    def _steps(self) -> tuple[EngineStep | HostStep, ...]:
        """Return the steps in order, each read from the section of its kind."""
        counts = dict.fromkeys(STEP_KINDS, 0)
        steps: list[EngineStep | HostStep] = []
        for row in self._tables["steps"]:
            kind = STEP_KINDS[row["kind"]]
            rows, number = self._tables[f"{kind}_steps"], counts[kind]
            if row["index"] != number or number >= len(rows):
                raise ProgramError(
                    f"steps[{len(steps)}] must be {kind} step {number} of {len(rows)}, "
                    f"not {row['index']}"
                )
            counts[kind] += 1
            item = rows[number]
            steps.append(self._host_step(item) if kind == "host" else self._engine_step(item))
        for kind, count in counts.items():
            total = len(self._tables[f"{kind}_steps"])
            if count != total:
                raise ProgramError(f"all {total} {kind} steps must be in steps, not {count}")
        return tuple(steps)

    def _engine_step(self, row: _Row) -> EngineStep:
        """Return the engine step of a record."""
        repeats = [
            self._repeat(item) for item in self._list(row, "repeat", self._tables["repeats"])
        ]
        return EngineStep(
            command_offset=row["command_offset"],
            command_bytes=row["command_bytes"],
            inputs=self._list(row, "inputs", self._bindings),
            outputs=self._list(row, "outputs", self._bindings),
            predicted_cycles=row["predicted_cycles"],
            repeat=repeats[0] if repeats else None,
        )

    def _repeat(self, row: _Row) -> Repeat:
        """Return the commands of a record for later calls."""
        spans = self._list(row, "kept", self._tables["spans"])
        return Repeat(
            command_offset=row["command_offset"],
            command_bytes=row["command_bytes"],
            predicted_cycles=row["predicted_cycles"],
            kept=tuple((span["start"], span["end"]) for span in spans),
        )

    def _host_step(self, row: _Row) -> HostStep:
        """Return the host step of a record; raise `ProgramError` if its operator is unknown."""
        operator = OPERATOR_BY_NUMBER.get(row["operator"])
        if operator is None:
            raise ProgramError(
                f"a host step's operator must have a kernel, not number {row['operator']}"
            )
        rows = self._list(row, "attributes", self._tables["attributes"])
        return HostStep(
            operator=operator.name,
            inputs=self._objects(row, "inputs", self._operand),
            outputs=tuple(info.key for info in self._objects(row, "outputs", self._info)),
            attributes=self._values(operator.name, rows, attributes_of(operator, ATTRIBUTES)),
            reason=self._texts[row["reason"]],
        )

    def _layer(self, row: _Row) -> LayerInfo:
        """Return the report on an operator from a record."""
        return LayerInfo(
            name=self._texts[row["name"]],
            operator=self._texts[row["operator"]],
            where=PLACES[row["where"]],
            timestamp=row["timestamp"],
            macs=row["macs"],
            predicted_cycles=row["predicted_cycles"],
            reason=self._texts[row["reason"]],
            tensor_bytes=row["tensor_bytes"],
            repeat_cycles=row["repeat_cycles"],
            mode=self._texts[row["mode"]],
        )

    def _variable(self, row: _Row) -> VariableInfo:
        """Return the variable of a record."""
        places = self._list(row, "place", self._bindings)
        return VariableInfo(
            name=self._texts[row["name"]],
            before=self._info(row["before"]).key,
            after=self._info(row["after"]).key,
            initial=row["initial"],
            place=places[0] if places else None,
        )

    def _preprocess(self, row: _Row) -> PreprocessInfo:
        """Return the preprocessing of a record."""
        definition = self._texts[row["definition"]]
        return PreprocessInfo(tensor=self._info(row["tensor"]).key, definition=definition)

    def _verdict(self, row: _Row) -> Verdict:
        """Return the result of the compiler's check from a record."""
        return Verdict(
            mode=CHECKS[row["mode"]],
            seed=row["seed"],
            share=row["share"],
            calls=row["calls"],
            stages=(row["proven"], row["stages"]),
            fallback=self._texts[row["fallback"]],
            tiles=row["tiles"],
        )


def _check_value(subject: str, value: Any, attribute: Attribute, kind: Kind) -> Any:
    """Return an attribute's value as a Python object; raise `ProgramError` if it is illegal."""
    if kind is Kind.BOOLEAN:
        if value not in (0, 1):
            raise ProgramError(f"{subject} must be 0 or 1, not {value}")
        return bool(value)
    if attribute.choices:
        if not 0 <= value < len(attribute.choices):
            raise ProgramError(
                f"{subject} must be one of {', '.join(attribute.choices)}, not {value}"
            )
        return attribute.choices[value]
    low, high = attribute.low, attribute.high
    if kind in (Kind.TEXT, Kind.TEXTS):
        return value
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        raise ProgramError(f"{subject} must be {low} to {high}, not {value}")
    return value
