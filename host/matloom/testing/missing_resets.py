"""Verilog in which each reset can be taken away: mutants of a chip that an input chooses."""

import re

__all__ = ["missing_resets", "resets_of"]

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
    """Return the resets of a generated text: module, register, and what resets it.

    The number that Amaranth gives the latter is left out: it changes with every change of the text.
    Mutant `n` of `missing_resets` has not the n-th of them, counted from one.
    """
    return tuple(
        f"{module['name'].lstrip(_ESCAPE)} {_register(module['body'], reset['next'])}, "
        f"by {reset['reset'].lstrip(_ESCAPE).partition('$')[0]}"
        for module in _MODULE.finditer(verilog)
        for reset in _RESET.finditer(module["body"])
    )


def _register(body: str, following: str) -> str:
    """Return the register that takes a value at the clock's edge, or the value's own name."""
    taken = re.search(rf"^    (\S+) +<= {re.escape(following)} *;$", body, re.MULTILINE)
    return (taken[1] if taken else following).lstrip(_ESCAPE)


def missing_resets(verilog: str) -> str:
    """Return a text of all mutants: each module has a wire `mutsel` that chooses one."""
    number = 0

    def removable(reset: re.Match[str]) -> str:
        nonlocal number
        number += 1
        name = reset["reset"]
        return reset[0].replace(f"({name}", f"(({name} ) & (mutsel != {_BITS}'d{number})", 1)

    def module(found: re.Match[str]) -> str:
        body = _RESET.sub(removable, found["body"])
        if body != found["body"]:
            body = f"  wire [{_BITS - 1}:0] mutsel;\n{body}"
        return found[0].replace(found["body"], body)

    return _MODULE.sub(module, verilog)
