"""The PyTensor half of the array namespace that `bayes_tacit.numerics` is written over."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor import TensorVariable

SQRT_2 = np.float64(np.sqrt(2.0))
"""A float64 constant: `pt.sqrt(2.0)` would be single precision."""


def log_ndtr(z: TensorVariable) -> TensorVariable:
    r"""Log of the standard normal distribution function, with finite gradients at any z.

    Below -1 it is :math:`\log\{\operatorname{erfcx}(-z/\sqrt2)/2\} - z^2/2`, elsewhere
    :math:`\operatorname{log1p}\{-\operatorname{erfc}(z/\sqrt2)/2\}`.
    """
    in_tail = z < -1.0
    tail = pt.where(in_tail, z, -1.0)
    body = pt.where(in_tail, -1.0, z)
    log_tail = pt.log(pt.erfcx(-tail / SQRT_2) / 2.0) - tail * tail / 2.0
    return pt.where(in_tail, log_tail, pt.log1p(-pt.erfc(body / SQRT_2) / 2.0))


PYTENSOR = SimpleNamespace(
    concatenate=pt.concatenate,
    exp=pt.exp,
    log=pt.log,
    log1mexp=pt.log1mexp,
    log1p=pt.log1p,
    log_ndtr=log_ndtr,
    maximum=pt.maximum,
    where=pt.where,
)
