"""Residual networks for small pixels, and the same without their shortcuts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labkit.common.numbers import whole


def resnet(
    size: int = 48,
    blocks: Sequence[int] = (1, 1, 1),
    width: int = 16,
    *,
    stride: int = 2,
    residual: bool = True,
    classes: int = 10,
) -> Any:
    """Return a network that takes normalised pixels and gives a logit for each class.

    Parameters
    ----------
    size : int
        Edge of the pixels.
    blocks : sequence of int
        Blocks of two convolutions in each stage; each stage has half the edge and twice the filters of the last one.
        Convolutions in a row: 2 for each block, and the first one; with the last layer that is the depth.
    width : int
        Filters of the first stage.
    stride : int
        Of the first convolution: with 2, all that follows costs a quarter.
    residual : bool
        Add the input of a block to its output. Without, the same layers stand in a row.
    classes : int

    Returns
    -------
    keras.Model

    References
    ----------
    He, Zhang, Ren and Sun: Deep residual learning for image recognition (CVPR 2016).
    """
    import keras
    from keras import layers

    def convolution(values: Any, filters: int, kernel: int = 3, stride: int = 1) -> Any:
        how = {"padding": "same", "use_bias": False, "kernel_initializer": "he_normal"}
        return layers.BatchNormalization(momentum=0.9)(layers.Conv2D(filters, kernel, stride, **how)(values))

    whole("size", size, least=8)
    image = keras.Input((size, size, 3))
    values = layers.ReLU()(convolution(image, width, stride=stride))
    for stage, count in enumerate(blocks):
        filters = width * 2**stage
        for block in range(count):
            first = 2 if stage and not block else 1
            inner = layers.ReLU()(convolution(values, filters, stride=first))
            inner = convolution(inner, filters)
            if residual:
                same = first == 1 and values.shape[-1] == filters
                inner = layers.Add()([inner, values if same else convolution(values, filters, 1, first)])
            values = layers.ReLU()(inner)
    values = layers.GlobalAveragePooling2D()(values)
    depth = 2 + 2 * sum(blocks)
    return keras.Model(image, layers.Dense(classes)(values), name=f"{'resnet' if residual else 'plain'}{depth}")
