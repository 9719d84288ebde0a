"""Splits a layer into two of low rank that change outputs least over the calibration samples.

The products of a layer are weights times rows of inputs. If the outputs of a layer, or the
windows that it reads, nearly lie in a space of fewer dimensions, one layer may compute the
coordinates in that space and another one the outputs. Such spaces are spanned by the principal
components, so the covariance of the inputs, not only the weights, decides what is dropped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from matloom.ir.attributes import (
    NO_PADDING,
    Activation,
    Attributes,
    Conv2D,
    FullyConnected,
)
from matloom.ir.graph import Node, Op
from matloom.quantiser.precisions import NARROW

#: Lower bound on the eigenvalues of an inverted covariance, as a share of the mean.
_LEAST_EIGENVALUE = 1e-6

_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerPart:
    """One of the layers that replace a layer, without its bias.

    Members
    -------
    weights:
        (outputs, height, width, inputs) of a convolution, (outputs, inputs) of a dense layer.
    """

    weights: _Numbers
    attributes: Attributes


def full_rank(node: Node, shape: tuple[int, ...]) -> Mapping[str, int]:
    """Return the forms in which a layer can be split, with the rank at which each is exact.

    ``"outputs"`` is the layer with fewer outputs, then a 1 x 1 convolution or a dense layer.
    ``"inputs"`` is a 1 x 1 convolution to fewer channels, then the layer on these. ``"axes"`` is a
    convolution over columns, then one over rows.

    Parameters
    ----------
    shape:
        Shape of the layer's weights.
    """
    if node.op not in NARROW:
        return {}
    outputs, inputs = shape[0], shape[-1]
    forms = {"outputs": min(outputs, int(np.prod(shape[1:])))}
    if node.op is Op.CONV_2D and shape[1] * shape[2] > 1:
        forms["inputs"] = inputs
        if min(shape[1:3]) > 1:
            forms["axes"] = min(shape[1] * inputs, shape[2] * outputs)
    return forms


class Splitter:
    """Splits a layer into two, in any form of `full_rank` and at any rank.

    Parameters
    ----------
    weights:
        Weights to split, in the shape of the layer's weights.
    covariance:
        Covariance of a row of inputs, (depth, depth); it must be positive definite.
    """

    def __init__(self, node: Node, weights: _Numbers, covariance: _Numbers) -> None:
        self._node, self._weights, self._covariance = node, weights, covariance
        self._known: dict[str, _Numbers] = {}

    def parts(self, form: str, rank: int) -> tuple[LayerPart, LayerPart]:
        """Return both layers that replace the layer; `form` is a form of `full_rank`."""
        return _SPLITS[form](self, rank)

    def residual(self, parts: tuple[LayerPart, LayerPart]) -> _Numbers:
        """Return what both layers together lose of the weights: (outputs, depth)."""
        return (self._weights - product(parts)).reshape(len(self._weights), -1)

    def error(self, parts: tuple[LayerPart, LayerPart]) -> float:
        """Return the share of the outputs' variance that both layers lose."""
        flat = self._weights.reshape(len(self._weights), -1)
        lost = self.residual(parts)
        total = float(((flat @ self._covariance) * flat).sum())
        return float(((lost @ self._covariance) * lost).sum()) / total if total > 0 else 0.0

    def _principal(self, form: str, squares: _Numbers) -> _Numbers:
        """Return the eigenvectors of a symmetric matrix, largest eigenvalue first; cached by form.

        They are computed once for each kind, as the matrix does not depend on the rank.
        """
        if form not in self._known:
            self._known[form] = np.asarray(np.linalg.eigh(squares)[1][:, ::-1], np.float64)
        return self._known[form]

    def _split_outputs(self, rank: int) -> tuple[LayerPart, LayerPart]:
        """Return a layer with fewer outputs, and a pointwise layer that mixes them."""
        weights = self._weights
        flat = weights.reshape(len(weights), -1)
        basis = self._principal("outputs", flat @ self._covariance @ flat.T)[:, :rank]
        first = (basis.T @ flat).reshape(rank, *weights.shape[1:])
        dense = self._node.op is Op.FULLY_CONNECTED
        second = basis if dense else basis[:, np.newaxis, np.newaxis, :]
        return (
            LayerPart(weights=first, attributes=_without_activation(self._node)),
            LayerPart(weights=second, attributes=_pointwise_attributes(self._node)),
        )

    def _split_inputs(self, rank: int) -> tuple[LayerPart, LayerPart]:
        """Return a pointwise layer to fewer channels, and a layer that reads those."""
        weights, channels = self._weights, self._weights.shape[-1]
        taps = weights.shape[1] * weights.shape[2]
        covariance = self._covariance.reshape(taps, channels, taps, channels)
        root, inverse = _root_and_inverse(np.einsum("pipj->ij", covariance) / taps)
        scaled = weights @ root
        flat = scaled.reshape(-1, channels)
        basis = self._principal("inputs", flat.T @ flat)[:, :rank]
        first = (basis.T @ inverse)[:, np.newaxis, np.newaxis, :]
        linear = replace(_pointwise_attributes(self._node), activation=Activation.NONE)
        return (
            LayerPart(weights=first, attributes=linear),
            LayerPart(weights=scaled @ basis, attributes=self._node.attributes),
        )

    def _split_axes(self, rank: int) -> tuple[LayerPart, LayerPart]:
        """Return a convolution along the height to `rank` channels, and one along the width."""
        outputs, height, width, channels = self._weights.shape
        covariance = self._covariance.reshape(height, width, channels, height, width, channels)
        columns = np.einsum("yxizxj->yizj", covariance).reshape(height * channels, -1)
        flat = self._weights.transpose(1, 3, 2, 0).reshape(height * channels, -1)
        basis = self._principal("axes", flat.T @ columns @ flat)[:, :rank]
        first = (flat @ basis).reshape(height, channels, rank).transpose(2, 0, 1)
        second = basis.reshape(width, outputs, rank).transpose(1, 0, 2)
        attributes = self._node.attributes_as(Conv2D)
        return (
            LayerPart(
                weights=first[:, :, np.newaxis, :], attributes=_convolve_along(attributes, 0)
            ),
            LayerPart(weights=second[:, np.newaxis], attributes=_convolve_along(attributes, 1)),
        )


_SPLITS = {
    "outputs": Splitter._split_outputs,
    "inputs": Splitter._split_inputs,
    "axes": Splitter._split_axes,
}


def product(parts: tuple[LayerPart, LayerPart]) -> _Numbers:
    """Return the weights of the single layer that is equivalent to both layers."""
    first, second = (part.weights for part in parts)
    if isinstance(parts[0].attributes, FullyConnected):
        return np.asarray(second @ first)
    # Along each axis, one of both has a single tap.
    taps = np.einsum("ryxi,ovur->ovyuxi", first, second)
    height, width = (first.shape[axis] * second.shape[axis] for axis in (1, 2))
    return np.asarray(taps.reshape(len(second), height, width, first.shape[3]))


def _root_and_inverse(matrix: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Return the square root of a positive definite matrix, and the inverse of that root."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.sqrt(np.maximum(values, max(_LEAST_EIGENVALUE * float(values.mean()), 1e-30)))
    return (vectors * values) @ vectors.T, (vectors / values) @ vectors.T


def _without_activation(node: Node) -> Attributes:
    """Return a layer's attributes without its activation."""
    attributes = node.attributes
    assert isinstance(attributes, Conv2D | FullyConnected)
    return replace(attributes, activation=Activation.NONE)


def _pointwise_attributes(node: Node) -> Conv2D | FullyConnected:
    """Return the attributes of a 1 x 1 layer with the activation of `node`."""
    attributes = node.attributes
    assert isinstance(attributes, Conv2D | FullyConnected)
    if isinstance(attributes, FullyConnected):
        return attributes
    return replace(attributes, stride=(1, 1), dilation=(1, 1), padding=NO_PADDING)


def _convolve_along(attributes: Conv2D, axis: int) -> Conv2D:
    """Return the attributes of a convolution along an axis; along axis 0, without activation."""
    across = {"left": 0, "right": 0} if axis == 0 else {"top": 0, "bottom": 0}
    return replace(
        attributes,
        stride=_along_axis(attributes.stride, axis),
        dilation=_along_axis(attributes.dilation, axis),
        padding=replace(attributes.padding, **across),
        activation=Activation.NONE if axis == 0 else attributes.activation,
    )


def _along_axis(pair: tuple[int, int], axis: int) -> tuple[int, int]:
    """Return a pair for a window of one axis: 1 along the other."""
    return (pair[0], 1) if axis == 0 else (1, pair[1])
