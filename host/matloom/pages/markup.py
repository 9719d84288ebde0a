"""Functions that make HTML elements, and escape all text in them."""

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from matloom.printable import printable_lines

#: Elements without content and without an end tag.
_VOID = frozenset({"br", "col", "hr", "input", "link", "meta", "wbr"})


class Markup(str):
    """HTML that is already escaped. Make it only with `tag`, `join`, or from trusted text."""

    __slots__ = ()


#: Content of an element: text, which is escaped; a number; `Markup`; several of these; or None for
#: nothing.
Content: TypeAlias = "str | float | Iterable[Content] | None"


def join(*content: Content) -> Markup:
    """Return texts and elements one after another.

    In texts, HTML is escaped, and so are control characters other than line breaks.
    """
    return Markup("".join(map(_text, content)))


def tag(name: str, /, *content: Content, **attributes: str | float | bool | None) -> Markup:
    """Return an HTML element with a name, content and attributes.

    In names of attributes, underscores become hyphens, and one at the end is dropped: ``class_``,
    ``data_tip``. An attribute that is True has no value; one that is None or False is left out.
    """
    shown = "".join(
        _attribute(key, value)
        for key, value in attributes.items()
        # Not `in (None, False)`: 0 equals False.
        if value is not None and value is not False
    )
    if name in _VOID:
        return Markup(f"<{name}{shown}>")
    return Markup(f"<{name}{shown}>{join(*content)}</{name}>")


def code(text: str) -> Markup:
    """Return a command or the name of a configuration, whose lines break before a plus sign."""
    first, *changes = text.split("+")
    return tag("code", first, *(join(tag("wbr"), f"+{change}") for change in changes))


def _attribute(key: str, value: str | float | bool | None) -> str:
    """Return an attribute as HTML, after a space; underscores in its name become hyphens."""
    name = key.removesuffix("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(printable_lines(str(value)))}"'


def _text(content: Content) -> str:
    """Return content as HTML, with text escaped."""
    if content is None:
        return ""
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return escape(printable_lines(content), quote=False)
    if isinstance(content, int | float):
        return str(content)
    return "".join(map(_text, content))
