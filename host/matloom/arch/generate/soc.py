"""The C header and the reference page of the system on chip."""

from matloom.arch.csr import Register
from matloom.arch.generate.guard import add_include_guard
from matloom.arch.generate.pages import NOTICE, table
from matloom.arch.generate.sentences import one_sentence_per_line
from matloom.arch.soc import (
    BOARD_BYTES,
    INTERRUPTS,
    LINE_BYTES,
    MEMORY_BASE,
    PERIPHERALS,
    REGIONS,
    SOC_IDENTITY,
)

_PAGE = f"""\
A RISC-V processor (VexRiscv) next to the engine, with the same external memory.
It starts at the first byte of the boot ROM.
`matloom_soc.h` defines all numbers of this page for C.

- **Registers** are 32 bits wide; read and write them as whole words.
- **Addresses.** Byte k of external memory is at `0x40000000` + k (cached) and `0xc0000000` + k
  (uncached) for the
  processor, and at `{MEMORY_BASE:#x}` + k for the engine.
  Write the engine's address to the engine's registers.
- **Caches.** Addresses from `0x80000000` on are never cached.
  The data cache, if there is one (DATA_CACHE), writes through and has lines of {LINE_BYTES} bytes.
  Before the processor reads what the engine wrote, flush it (`.word 0x500f`, an illegal instruction
  without a data
  cache), or read at the uncached addresses.
- **Bus errors.** An access to an unused address, or one that ends with an error, does not trap: a
  read returns an
  undefined value, and the register ERRORS reports it.
- **Interrupts.** The interrupt controller drives bit 0 of the processor's external interrupts
  (cause 11); bit 0 of CSR
  `0xbc0` enables it.
  If enabled in CONTROL, the timer also raises the processor's timer interrupt (cause 7).
"""


def _registers(prefix: str, items: tuple[Register, ...]) -> list[str]:
    """Return C lines with the offset of each register, and shift and mask of its fields."""
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
        "/* Regions: start addresses and largest sizes. */",
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
        lines += ["", f"/* {name}: byte offsets of registers; shifts and masks of fields. */"]
        lines += _registers(f"MATLOOM_SOC_{name}", registers)
    return add_include_guard("MATLOOM_SOC_H", lines)


def soc_page() -> str:
    """Return the text of the page on the system on chip."""
    parts = [NOTICE, "# System on chip\n", _PAGE, "## Regions\n"]
    rows = [
        (f"`{item.base:#010x}`", f"{item.bytes:#x}", "yes" if item.cached else "no", item.doc)
        for item in REGIONS
    ]
    parts.append(table(("address", "bytes", "cached", "contents"), rows))
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
    return one_sentence_per_line("\n".join(parts))
