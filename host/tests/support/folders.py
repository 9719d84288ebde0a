"""Unusual names of folders and files, of all kinds."""

import os

__all__ = ["FOLDERS"]

#: Any character but these two, and any bytes, up to 255 of them.
_PRINTABLE = "".join(letter for letter in map(chr, range(32, 127)) if letter != "/")
FOLDERS = {
    "printable": _PRINTABLE,
    "accents": "jos\N{LATIN SMALL LETTER E WITH ACUTE} \N{CJK UNIFIED IDEOGRAPH-65E5}",
    "bytes": os.fsdecode(b"\xff\xfe\x80"),
    "control": "tab\tnewline\nbell\a escape\x1b delete\x7f",
    "long": "/".join(["n" * 255] * 3),
    "dash": "-O3 --help",
}
