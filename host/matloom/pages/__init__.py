"""Reports as HTML pages: one file each, without network access, for any size of screen.

`markup` makes and escapes elements, `parts` has tables, bars and the like, and `page` puts pages
together; `style.css` and `script.js` go into every page. A page works without its script, which
adds tips, sorting and the choice of a theme.
"""

from matloom.pages.markup import Content, Markup, code, join, tag
from matloom.pages.page import Page, PageSection
from matloom.pages.parts import Column, badge, details, figures, legend, stacked_bar, table

__all__ = [
    "Column",
    "Content",
    "Markup",
    "Page",
    "PageSection",
    "badge",
    "code",
    "details",
    "figures",
    "join",
    "legend",
    "stacked_bar",
    "table",
    "tag",
]
