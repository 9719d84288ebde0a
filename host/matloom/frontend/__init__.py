"""Model files to graphs, and back: one reader for each format, chosen by a file's content."""

from matloom.frontend.readers import complete, declaration, load, macs, reshaped, write

__all__ = ["complete", "declaration", "load", "macs", "reshaped", "write"]
