"""The C header and the reference page of the system on chip."""

from matloom.arch.csr import Register
from matloom.arch.generate.guard import guarded
from matloom.arch.generate.pages import NOTICE, table
from matloom.arch.soc import (
    BOARD_BYTES,
    INTERRUPTS,
    LINE_BYTES,
    MEMORY_BASE,
    PERIPHERALS,
    REGIONS,
    SOC_IDENTITY,
)

__all__ = ["soc_header", "soc_page"]

_PAGE = f"""\
A RISC-V processor (VexRiscv) next to the engine, on the same external memory. Its registers are
words of 32 bits, read and written as such. From `0x80000000` on the processor caches nothing. Its
data cache, if it has one (DATA_CACHE), writes through, and keeps lines of {LINE_BYTES} bytes that
it has read: before it reads what the engine wrote it must flush them (`.word 0x500f`, an illegal
instruction where there is no data cache) or read at the uncached addresses. Byte k of external
memory is at `0x40000000` + k and `0xc0000000` + k for the processor, at `{MEMORY_BASE:#x}` + k for
the engine, in whose registers this address goes. An access that nothing answers, or that ends with
an error, is no trap: it reads as anything, and register ERRORS tells of it.

The interrupt controller drives bit 0 of the processor's external interrupts (cause 11), which CSR
`0xbc0` lets pass where its bit 0 is one. The timer is its timer interrupt (cause 7), too, as long
as CONTROL has it. The processor starts at the first byte of the boot ROM.

`matloom_soc.h` has the numbers of this page for C.
"""


def _registers(prefix: str, items: tuple[Register, ...]) -> list[str]:
    lines = []
    for item in items:
        name = f"{prefix}_{item.name}"
        lines.append(f"#define {name}_OFFSET {item.offset:#x}u /* {item.doc} */")
        for bits in item.fields:
            lines.append(f"#define {name}_{bits.name.upper()}_SHIFT {bits.shift}u")
            lines.append(f"#define {name}_{bits.name.upper()}_MASK {bits.mask:#x}u")
    return lines


def soc_header() -> str:
    """Return the text of ``matloom_soc.h``."""
    lines = [
        f"#define MATLOOM_SOC_IDENTITY {SOC_IDENTITY:#010x}u",
        f"#define MATLOOM_SOC_BUS_MEMORY_BASE {MEMORY_BASE:#010x}u",
        f"#define MATLOOM_SOC_LINE_BYTES {LINE_BYTES}u",
        f"#define MATLOOM_SOC_BOARD_BYTES {BOARD_BYTES}u",
        "",
        "/* Regions: where they begin, and how much they are at most. */",
    ]
    for item in REGIONS:
        lines.append(f"#define MATLOOM_SOC_{item.name}_BASE {item.base:#010x}u /* {item.doc} */")
        lines.append(f"#define MATLOOM_SOC_{item.name}_BYTES {item.bytes:#x}u")
    lines += ["", "/* Sources of interrupts. */", "enum matloom_soc_interrupt {"]
    lines += [
        f"  MATLOOM_SOC_INTERRUPT_{name.upper()} = {bit}, /* {doc} */"
        for bit, (name, doc) in enumerate(INTERRUPTS)
    ]
    lines.append("};")
    for name, registers in PERIPHERALS.items():
        lines += ["", f"/* {name}: byte offsets, and masks of fields in place. */"]
        lines += _registers(f"MATLOOM_SOC_{name}", registers)
    return guarded("MATLOOM_SOC_H", lines)


def soc_page() -> str:
    """Return the text of the page on the system on chip."""
    parts = [NOTICE, "# System on chip\n", _PAGE, "## Regions\n"]
    rows = [
        (f"`{item.base:#010x}`", f"{item.bytes:#x}", "yes" if item.cached else "no", item.doc)
        for item in REGIONS
    ]
    parts.append(table(("address", "bytes", "cached", "what"), rows))
    for name, registers in PERIPHERALS.items():
        parts.append(f"## {name}\n")
        lines = [
            (f"`{i.offset:#04x}`", f"`{i.name}`", i.access.value, f"{i.reset:#x}", i.doc)
            for i in registers
        ]
        parts.append(table(("offset", "register", "access", "reset", "meaning"), lines))
        fields = [
            (f"`{item.name}`", bits.shift, bits.bits, f"`{bits.name}`", bits.doc)
            for item in registers
            for bits in item.fields
        ]
        if fields:
            parts.append(table(("register", "bit", "bits", "field", "meaning"), fields))
    return "\n".join(parts)
