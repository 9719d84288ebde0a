"""TensorFlow Lite files to graphs."""

import textwrap
from pathlib import Path

from matloom.frontend.errors import ModelError
from matloom.frontend.source import read_network
from matloom.frontend.subgraph import SubgraphReader
from matloom.ir.graph import Graph
from matloom.ir.verify import verify

__all__ = ["load_tflite"]

IDENTIFIER = b"TFL3"


def load_tflite(source: str | Path | bytes) -> Graph:
    """Return the graph of a TensorFlow Lite file, given its path, its bytes or a packaged name.

    Tensors keep their numbers, and their names unless two inputs or two outputs share one: those
    get their number after a colon. Constants of 4-bit integers become int8. Constants that only
    say how an operator works (axes, paddings) become its attributes; a bias that is absent is
    dropped. Operators that the graph does not know, or that break one of its rules, become
    REFERENCE nodes, which say why.

    Raises
    ------
    ModelError
        The file is missing, truncated or malformed, or a tensor is read that nothing provides.
    """
    name, content = read_network(source, IDENTIFIER)
    try:
        graph = SubgraphReader(content).graph(name)
        verify(graph, name)
    except ModelError as error:
        raise ModelError(_line(f"{name}: {error}")) from None
    # A corrupted offset can make the generated readers raise almost anything.
    except Exception as error:
        prefix = "" if str(error).startswith(f"{name}: ") else f"{name} is truncated or malformed: "
        raise ModelError(_line(f"{prefix}{error}")) from error
    return graph


def _line(sentence: str) -> str:
    """Return a sentence as one line of bounded length: a file may hold anything."""
    return textwrap.shorten(sentence, 300, placeholder=" ...")
