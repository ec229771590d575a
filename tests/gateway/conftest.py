"""Places where sessions can be kept, for all tests of the gateway."""

from contextlib import ExitStack

import pytest
from stores import Places


@pytest.fixture(scope="session")
def places():
    with ExitStack() as stack:
        yield Places(stack)
