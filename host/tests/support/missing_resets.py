"""Mutants of a chip without one of its resets, selected by an input."""

import re

__all__ = ["RESETS", "missing_resets", "resets_of"]

#: Resets that can be taken away, each of another unit. With all of them, some 500, a chip in two
#: rails takes half a minute longer to build.
RESETS = (
    "matloom.core axi_read__ar__valid, by reset",
    "matloom.core.control.supervisor running, by reset",
)

#: How the generated text resets one register.
_RESET = re.compile(
    r"^    if \((?P<reset>\\?\w*reset[\w$]*) ?\) begin\n      (?P<next>\S+) += [^;]+;\n",
    re.MULTILINE,
)
_MODULE = re.compile(r"^module (?P<name>\\\S+|\w+).*?;\n(?P<body>.*?)^endmodule", re.M | re.S)

#: What Verilog begins names with that have characters of their own.
_ESCAPE = "\\"

#: Bits of the input.
_BITS = 16


def resets_of(verilog: str) -> tuple[str, ...]:
    """Return the resets in a generated text: module, register, and reset signal.

    The number that Amaranth appends to the signal is left out: it changes with every edit.
    """
    return tuple(
        _name(module, reset)
        for module in _MODULE.finditer(verilog)
        for reset in _RESET.finditer(module["body"])
    )


def _name(module: re.Match[str], reset: re.Match[str]) -> str:
    register = _register(module["body"], reset["next"])
    by = reset["reset"].lstrip(_ESCAPE).partition("$")[0]
    return f"{module['name'].lstrip(_ESCAPE)} {register}, by {by}"


def _register(body: str, following: str) -> str:
    """Return the register that takes a value at the clock edge, or the value's own name."""
    taken = re.search(rf"^    (\S+) +<= {re.escape(following)} *;$", body, re.MULTILINE)
    return (taken[1] if taken else following).lstrip(_ESCAPE)


def missing_resets(verilog: str) -> str:
    """Return a text with all mutants: `mutsel` selects which of RESETS is missing."""

    def module(found: re.Match[str]) -> str:
        def removable(reset: re.Match[str]) -> str:
            if (name := _name(found, reset)) not in RESETS:
                return reset[0]
            number, wire = RESETS.index(name) + 1, reset["reset"]
            return reset[0].replace(f"({wire}", f"(({wire} ) & (mutsel != {_BITS}'d{number})", 1)

        body = _RESET.sub(removable, found["body"])
        if body != found["body"]:
            body = f"  wire [{_BITS - 1}:0] mutsel;\n{body}"
        return found[0].replace(found["body"], body)

    return _MODULE.sub(module, verilog)
