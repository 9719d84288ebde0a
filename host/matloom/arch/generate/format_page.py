"""The reference page of Program files."""

from matloom.arch.generate.pages import NOTICE, table
from matloom.arch.generate.sentences import one_sentence_per_line
from matloom.arch.program_file import (
    ATTRIBUTES,
    CONFIGURATION,
    DIRECTORY,
    FILE_LIMIT,
    FORMAT_VERSION,
    HEADER,
    OPERATORS,
    REGION_LIMIT,
    SECTIONS,
    TENSOR_LIMIT,
    TENSORS_LIMIT,
    Attribute,
    Kind,
    RecordField,
    Section,
)

_TEXT = f"""\
Format version {FORMAT_VERSION}. A file (`.mloom`) is a header, a directory, and sections: tables of
records of fixed size, or bytes. All numbers are little-endian and lie at multiples of their size; a
file can be used where it lies in memory or flash, if it begins at a multiple of 64.

- `u32`, `i32`, `u64` and `f64` are as in C, `f64` is `double`.
- A `text` is the number of an entry of `texts` (`u32`).
- A `range` is two words: the first record, and how many. Every record of `integers`, `floats`,
  `bindings`, `repeats`, `spans` and `attributes` belongs to one range.

Sections are in the order of their tags, each at the next multiple of its alignment; bytes between
them are zero. If a reader does not know a section, it refuses the file if the section's flag says
that it is required, and skips the section otherwise, so new sections need no new version. A new
version is for layouts that older readers would misread; files of other versions are refused.

A file has at most {FILE_LIMIT:,} bytes, all regions together {REGION_LIMIT:,}, a tensor
{TENSOR_LIMIT:,}, all tensors together {TENSORS_LIMIT:,}.
"""

_RULES = """\
A reader checks the limits of every field, and then:

- Names of tensors differ, and so do names of constants. A constant that bears a tensor's name is an
  output of the network, and of the same shape and type. Section `ends` has the names that differ
  among inputs alone and among outputs alone.
- Dimensions are 1 or more. Constants lie within `host_data`; scales are positive and finite, zero
  points fit the type.
- Region PROGRAM has the size of the image. Inputs of engine steps lie in region INPUT, outputs in
  region OUTPUT, at multiples of 64; these regions end with their last tensor, rounded up to 64. Two
  tensors on one side of a step share all their bytes (one is the other, reshaped) or none.
- Command buffers lie within the image, at multiples of 16. Kept bytes lie within the scratchpad.
- A step reads what was given to the network, is constant, or was made by a step before it; nothing
  is provided twice; every output of the network is provided.
- A host step has the attributes of its operator, in the order of the table, and types, shapes and
  scales that the operator's own rules allow (`matloom.ir`). The last input of REFERENCE is a model
  file.
- Marks of layers are the configuration's; so are modes. The digest in the header is that of the
  configuration's fields.

`matloom.program` checks all this when it reads a file. Instructions are checked when a session
begins: legality, bounds, hazards, deadlock.
"""


def format_page() -> str:
    """Return the text of the file format page."""
    parts = [NOTICE, "# Program files\n", _TEXT, "## Header\n", _fields(HEADER)]
    parts += ["## Directory\n", "An entry for each section, after the header.\n"]
    parts += [_fields(DIRECTORY), "## Sections\n", table(_HEADINGS, [_row(s) for s in SECTIONS])]
    for section in SECTIONS:
        if section.fields:
            parts += [f"### {section.name}\n", f"{section.doc}\n", _fields(section.fields)]
    parts += ["## Rules\n", _RULES, "## Kinds\n", "How the values of an attribute are kept.\n"]
    parts += [table(("number", "kind", "values in"), [_kind_row(kind) for kind in Kind])]
    parts += ["## Operators\n", "Numbers are TensorFlow Lite's; 32, its custom operator, is here"]
    parts[-1] += " a stretch of operators that a reference interpreter runs.\n"
    operators = [(o.number, o.name, ", ".join(f"`{a}`" for a in o.attributes)) for o in OPERATORS]
    parts += [table(("number", "operator", "attributes"), operators)]
    for title, attributes in (("Attributes", ATTRIBUTES), ("Configuration", CONFIGURATION)):
        parts += [f"## {title}\n", _attributes(attributes)]
    return one_sentence_per_line("\n".join(parts))


_HEADINGS = ("tag", "section", "records", "record bytes", "alignment", "required", "meaning")


def _row(section: Section) -> tuple[object, ...]:
    """Return the cells of a section in the table of sections."""
    most = "" if section.most == FILE_LIMIT else section.most
    count = f"{section.least}" if section.least == most else f"{section.least} .. {most}".rstrip()
    size = section.record_bytes if section.fields else "bytes"
    required = "if present" if section.optional else "yes"
    required = "no" if section.ignorable else required
    name = f"`{section.name}`"
    return section.tag, name, count, size, section.alignment, required, section.doc


def _fields(fields: tuple[RecordField, ...]) -> str:
    """Return a Markdown table of the fields of a record, with their offsets."""
    rows, offset = [], 0
    for field in fields:
        rows.append((offset, field.type, f"`{field.name}`", _legal_values(field), field.doc))
        offset += field.bytes
    return table(("offset", "type", "field", "legal", "meaning"), rows)


def _legal_values(field: RecordField) -> str:
    """Return the legal values of a field as Markdown."""
    if field.choices:
        return ", ".join(f"{number} {name}" for number, name in enumerate(field.choices))
    if field.type == "range":
        few = "" if field.high == (1 << 32) - 1 else f", at most {field.high}"
        return f"in `{field.of}`{few}" if field.of else ""
    if field.low is None:
        return ""
    return f"{field.low}" if field.low == field.high else f"{field.low} .. {field.high}"


def _kind_row(kind: Kind) -> tuple[object, ...]:
    """Return the cells of an encoding of attributes: number, name, and section of the values."""
    places = {Kind.NONE: "", Kind.FLOAT: "`floats`", Kind.TEXT: "`texts`", Kind.TEXTS: "`texts`"}
    return int(kind), kind.name, places.get(kind, "`integers`")


def _attributes(attributes: tuple[Attribute, ...]) -> str:
    """Return a Markdown table of attributes, with their encodings and legal values."""
    rows = []
    for item in attributes:
        limits = "" if item.low is None and item.high is None else f"{item.low} .. {item.high}"
        if item.high is None:
            limits = "" if item.low is None else f"{item.low} or more"
        if item.choices:
            limits = ", ".join(f"{number} {name}" for number, name in enumerate(item.choices))
        kinds = " or ".join(kind.name for kind in item.kinds)
        count = "" if item.count is None else item.count
        rows.append((item.key, f"`{item.name}`", kinds, count, limits, item.doc))
    return table(("key", "name", "kind", "values", "legal", "meaning"), rows)
