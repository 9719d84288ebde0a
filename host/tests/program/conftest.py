"""Programs and files for the tests of the format."""

import pytest

from matloom import frontend
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from support.file_edits import FileParts


@pytest.fixture(scope="session")
def digits():
    """Return the program of a network with a step on the engine and one on the host."""
    return compile_network(frontend.load(NETWORK), "nano")


@pytest.fixture(scope="session")
def parts(digits):
    return FileParts.of(digits.to_bytes())
