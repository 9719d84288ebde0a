"""Fixtures of the host's tests: model collections, and networks small enough for every test."""

import numpy as np
import pytest

from matloom.data.matrix_products import product_graph
from matloom.ir.graph import Graph
from matloom.kernels.probe import keep_processes
from matloom.tools.bench import collection


@pytest.fixture(scope="session", autouse=True)
def _one_process_of_each_interpreter():
    """Start each interpreter's process once for all tests of a worker."""
    with keep_processes():
        yield


def _folder_of(name):
    """Return the folder of a collection, or skip."""
    folder = collection(name)
    if folder is None:
        pytest.skip(f"the collection {name} is absent: set MATLOOM_{name.upper()}")
    return folder


@pytest.fixture(scope="session")
def folder_of():
    """Return a function that returns the folder of a collection by its name, or skips."""
    return _folder_of


@pytest.fixture(scope="session")
def models():
    """Return the folder of the model collection, or skip."""
    return _folder_of("models")


@pytest.fixture(scope="session")
def wild():
    """Return the folder of the collection of networks from the wild, or skip."""
    return _folder_of("wild")


@pytest.fixture(scope="session")
def untuned():
    """Return the folder of the collection of untuned networks, or skip."""
    return _folder_of("untuned")


@pytest.fixture(scope="session")
def onnx_networks():
    """Return the folder of the collection of ONNX networks, or skip."""
    return _folder_of("onnx")


@pytest.fixture
def small_product() -> Graph:
    """Return a network of one dense layer: 3 samples of 20 values, 10 outputs."""
    return product_graph(3, 20, 10)


@pytest.fixture
def small_inputs():
    """Return inputs of `small_product` by name."""
    return {"a": np.random.default_rng(1).integers(-128, 128, (3, 20), np.int8)}
