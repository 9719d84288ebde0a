"""Whole pages: title, navigation and sections, with style sheet and script in the file itself."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from matloom.pages.markup import Content, Markup, join, tag

#: Content security policy that blocks all requests, also those from a report's text by mistake.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, kw_only=True)
class PageSection:
    """A section of a page, with an entry in the navigation.

    Members
    -------
    name:
        Fragment of the section's address: letters, digits and hyphens.
    lead:
        Sentence below the title on what the section shows and how to read it; empty for none.
    """

    name: str
    title: str
    content: Content
    lead: str = ""

    def element(self) -> Markup:
        """Return the section as an HTML element."""
        lead = tag("p", self.lead, class_="lead") if self.lead else None
        title = tag("h2", self.title, id=f"{self.name}-title")
        return tag(
            "section", title, lead, self.content, id=self.name, aria_labelledby=f"{self.name}-title"
        )


@dataclass(frozen=True, kw_only=True)
class Page:
    """A report as an HTML page.

    Members
    -------
    title:
        Title of the page and of its window.
    subtitle:
        Text or elements below the title, such as a `badge`; None for none.
    sections:
        Sections in order.
    foot:
        Text or elements at the end, on how the report was made; None for none.
    """

    title: str
    sections: tuple[PageSection, ...]
    subtitle: Content = None
    foot: Content = None

    def to_html(self) -> str:
        """Return the text of the HTML file, which is the same for equal pages."""
        body = tag("body", _SKIP, self._header(), self._main(), _script("script.js"))
        page = tag("html", self._head(), body, lang="en")
        return f"<!doctype html>\n{page}\n"

    def _head(self) -> Markup:
        """Return the head element: security policy, title and style sheet."""
        return tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", self.title),
            tag("style", Markup(_resource("style.css"))),
        )

    def _header(self) -> Markup:
        """Return the title of the page and the links to its sections."""
        links = (tag("a", each.title, href=f"#{each.name}") for each in self.sections)
        theme = tag("button", "Theme", type="button", id="theme", hidden=True)
        subtitle = tag("p", self.subtitle, class_="subtitle") if self.subtitle else None
        return join(
            tag("header", tag("h1", self.title), subtitle),
            tag("nav", tag("div", *links, class_="links"), theme, aria_label="Sections"),
        )

    def _main(self) -> Markup:
        """Return the sections, the footer, and the element for tooltips."""
        foot = tag("footer", self.foot) if self.foot else None
        main = tag("main", *(each.element() for each in self.sections), id="main")
        return join(main, foot, tag("div", id="tip", role="tooltip", hidden=True))


_SKIP = tag("a", "Skip to the contents", href="#main", class_="skip")


@cache
def _resource(name: str) -> str:
    """Return the text of a file in this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _script(name: str) -> Markup:
    """Return a script of this package as an HTML element."""
    return tag("script", Markup(_resource(name)))
