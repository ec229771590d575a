"""The PyTensor half of the array namespace that `bayes_tacit.model.numerics` is written over."""

from __future__ import annotations

from collections.abc import Callable
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
    return apply_where(
        z < -1.0,
        (z,),
        lambda z: pt.log(pt.erfcx(-z / SQRT_2) / 2.0) - z * z / 2.0,
        lambda z: pt.log1p(-pt.erfc(z / SQRT_2) / 2.0),
        (-1.0,),
        (-1.0,),
    )


def apply_where(
    condition: TensorVariable,
    arguments: tuple[TensorVariable, ...],
    if_true: Callable[..., TensorVariable],
    if_false: Callable[..., TensorVariable],
    safe_true: tuple[float, ...],
    safe_false: tuple[float, ...],
) -> TensorVariable:
    """Apply one of two functions to each element.

    Both are computed everywhere; each is fed harmless values where the other one is taken, without which the gradient
    of the result would be NaN there.
    """
    when_true = [pt.where(condition, given, safe) for given, safe in zip(arguments, safe_true, strict=True)]
    when_false = [pt.where(condition, safe, given) for given, safe in zip(arguments, safe_false, strict=True)]
    return pt.where(condition, if_true(*when_true), if_false(*when_false))


PYTENSOR = SimpleNamespace(
    apply_where=apply_where,
    concatenate=pt.concatenate,
    exp=pt.exp,
    expm1=pt.expm1,
    log=pt.log,
    log1mexp=pt.log1mexp,
    log1p=pt.log1p,
    log_ndtr=log_ndtr,
    maximum=pt.maximum,
    minimum=pt.minimum,
    softplus=pt.softplus,
    where=pt.where,
)
