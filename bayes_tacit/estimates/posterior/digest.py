"""The digest of a posterior's content, which its file carries: what was changed by other means is noticed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import xarray as xr


def digest(tree: xr.DataTree) -> str:
    """Digest attributes and arrays as they come out of a file, whichever format that has.

    Parameters
    ----------
    tree
        A posterior, without the attributes that only its file has.

    Returns
    -------
    str
        64 hexadecimal digits. Names, dims and numbers count; how a number is packed, and the order of variables, do
        not.

    Examples
    --------
    >>> tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"s": ("draw", [0.5, 0.6])})})
    >>> before = digest(tree)
    >>> tree.attrs["seed"] = 1
    >>> digest(tree) == before
    False
    """
    attrs = {str(name): _plain(value) for name, value in tree.attrs.items()}
    found = hashlib.sha256(json.dumps(attrs, sort_keys=True).encode())
    for path in sorted(tree.children):
        dataset = tree[path].to_dataset()
        for name in sorted(map(str, dataset.variables)):
            variable = dataset[name].variable
            values, kind = _bytes(variable.values)
            found.update(json.dumps([path, name, variable.dims, variable.shape, kind]).encode())
            found.update(values)
    return found.hexdigest()


def _plain(value: object) -> Any:  # noqa: ANN401
    """Give an attribute as JSON has it; formats differ in what they make of a list of one."""
    plain = np.asarray(value).tolist()
    return plain[0] if isinstance(plain, list) and len(plain) == 1 else plain


def _bytes(values: np.ndarray) -> tuple[memoryview | bytes, str]:
    """Give an array as bytes, and what they are: text, or numbers with the smaller byte first and one kind of NaN."""
    if values.dtype.kind in "OUST":
        return json.dumps(list(map(str, values.ravel().tolist()))).encode(), "text"
    plain = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"), copy=False))
    if plain.dtype.kind == "f" and np.isnan(plain).any():
        plain = np.where(np.isnan(plain), np.array(np.nan, plain.dtype), plain)
    return plain.tobytes(), plain.dtype.str
