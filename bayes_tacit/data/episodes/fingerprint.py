"""A digest of what episodes hold, whatever file or chunks they come from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from bayes_tacit.data.episodes.layout import DIMS, VARIABLES, blocks, carried_variables

if TYPE_CHECKING:
    from bayes_tacit.data.episodes.conversions import Array


def fingerprint(dataset: xr.Dataset) -> str:
    """Return the SHA-256 of ids, names and every value, as 64 hexadecimal digits.

    The order of episodes, features and diagnostics matters; the order of carried variables, attributes, chunks and
    the bits of a NaN do not.
    """
    digest = hashlib.sha256(b"bayes_tacit episodes 1")
    others = sorted(str(dim) for dim in dataset.dims if dim not in DIMS and dim in dataset.coords)
    for name in (*DIMS, *VARIABLES, *sorted(carried_variables(dataset)), *others):
        array = dataset[name]
        digest.update(repr((name, array.dims, array.shape, array.dtype.kind)).encode())
        for part in _parts(dataset, name):
            digest.update(_bytes(part))
    return digest.hexdigest()


def _parts(dataset: xr.Dataset, name: str) -> Iterator[Array]:
    array = dataset[name]
    if array.dims[:1] != ("episode",):
        yield array.values
        return
    for block in blocks(dataset):
        yield array.isel(episode=block).values


def _bytes(values: Array) -> bytes:
    if values.dtype.kind == "O":
        encoded = [text.encode() for text in values.ravel().tolist()]
        return b"".join(len(text).to_bytes(8, "little") + text for text in encoded)
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.nan, values)
    return np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
