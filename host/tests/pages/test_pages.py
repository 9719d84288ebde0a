"""HTML reports: names are escaped, and nothing is fetched."""

import re
from html.parser import HTMLParser

from matloom.pages import (
    Column,
    Markup,
    Page,
    PageSection,
    badge,
    code,
    details,
    figures,
    join,
    legend,
    stacked_bar,
    table,
    tag,
)

#: What a name in a model file may be.
HOSTILE = "</script><img src=x onerror='alert(1)'>&amp;\"\x1b[31m\u202e"
#: The same as it may be shown: on one line, without characters that hide or reorder.
SHOWN = HOSTILE.replace("\x1b", r"\x1b").replace("\u202e", r"\u202e")

VOID = {"br", "col", "hr", "input", "link", "meta", "wbr"}


class Outline(HTMLParser):
    """Elements, attributes and texts of a page; every element must be closed in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, text):
        self.texts.append(text)


def hostile_page():
    parts = (
        figures([(HOSTILE, HOSTILE, HOSTILE)]),
        table(
            [Column(title=HOSTILE, hint=HOSTILE), HOSTILE],
            [(HOSTILE, HOSTILE)],
            caption=HOSTILE,
            sortable=True,
        ),
        stacked_bar([(HOSTILE, 3, 1), ("none", 0, 2)], 4),
        legend([(HOSTILE, 1)]),
        badge(HOSTILE, "bad"),
        details(HOSTILE, HOSTILE),
    )
    section = PageSection(name="one", title=HOSTILE, lead=HOSTILE, content=parts)
    return Page(title=HOSTILE, subtitle=HOSTILE, sections=(section,), foot=HOSTILE).to_html()


def test_names_stay_text_wherever_they_are():
    outline = Outline(hostile_page())
    names = [name for name, _ in outline.elements]
    assert "img" not in names
    assert names.count("script") == 1
    assert sum(SHOWN in text for text in outline.texts) >= 15
    values = [value or "" for _, attributes in outline.elements for value in attributes.values()]
    assert any(SHOWN in value for value in values)
    for text in (*values, *outline.texts):
        assert all(each.isprintable() or each == "\n" for each in text)


def test_a_page_loads_nothing_external():
    page = hostile_page()
    elements = Outline(page).elements
    policy = next(a["content"] for _, a in elements if a.get("http-equiv"))
    assert policy.startswith("default-src 'none';")
    for name, attributes in elements:
        assert not {"src", "srcset", "action", "data"} & set(attributes), name
        assert attributes.get("href", "#").startswith("#")
    assert "url(" not in page
    assert "@import" not in page


def test_links_of_the_navigation_lead_to_sections():
    elements = Outline(hostile_page()).elements
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for name, a in elements if name == "a"} <= set(ids)


def test_text_is_escaped():
    assert tag("b", "1 < 2", 3, None, ["&", tag("i", "x")]) == "<b>1 &lt; 23&amp;<i>x</i></b>"
    assert tag("p", class_="a", data_tip='"', open=True, hidden=False, id=None) == (
        '<p class="a" data-tip="&quot;" open></p>'
    )
    assert tag("rect", x=0, tabindex=0) == '<rect x="0" tabindex="0"></rect>'
    assert tag("br") == "<br>"
    assert isinstance(join("<", tag("hr")), Markup)


def test_widths_of_a_bar_are_shares_of_its_total():
    bar = stacked_bar([("a", 30, 1), ("b", 0, 2), ("c", 10, 3)], 80)
    assert re.findall(r"width:([\d.]+)%", bar) == ["37.50", "12.50"]
    assert re.findall(r"<i", stacked_bar([("a", 0, 1)], 0)) == []


def test_rows_have_as_many_cells_as_columns():
    made = table(["a", Column(title="b", numeric=True)], [(1, 2), (3, 4)], kinds=["good"])
    assert made.count("<td") == made.count('<th scope="row"') == 2
    assert made.count('<tr class="good">') == 1


def test_names_of_configurations_break_before_a_change():
    made = code(f"small+rows=16+{HOSTILE}")
    assert made.startswith("<code>small<wbr>+rows=16<wbr>+&lt;/script&gt;")
    assert "".join(Outline(made).texts) == f"small+rows=16+{SHOWN}"
    assert code("matloom verify") == "<code>matloom verify</code>"
