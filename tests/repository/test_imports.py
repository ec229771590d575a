"""What each entry point may load: a first answer waits for every import."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    *("aiohttp", "arviz", "dask.distributed", "h5py", "httpx", "jinja2", "matplotlib", "numba", "numpy", "nutpie"),
    *("openai", "pandas", "pyarrow", "pydantic", "pymc", "pytensor", "rich", "scipy", "sklearn", "starlette", "typer"),
    *("xarray", "zarr", "formulaic", "filelock"),
}
NUMBERS = {"numpy", "scipy"}
TABLES = NUMBERS | {"pandas", "xarray", "pyarrow", "pydantic", "jinja2"}
FIT = "from bayes_tacit import fit_map, load_example; episodes = load_example(); fit = fit_map(episodes)"
ENTRIES = {
    "import bayes_tacit": set(),
    "from bayes_tacit import Router": NUMBERS,
    "from bayes_tacit import Episodes": TABLES,
    FIT: TABLES | {"h5py"},
    f"{FIT}; from bayes_tacit import handoff_score; handoff_score(fit, episodes)": TABLES | {"h5py", "rich"},
    "from bayes_tacit import sample_posterior": TABLES | {"numba", "nutpie", "arviz", "matplotlib", "rich"},
    "import bayes_tacit.cli": {"typer", "rich", "numpy"},
}


@pytest.mark.parametrize("program", ENTRIES)
def test_an_entry_point_loads_what_it_uses_and_nothing_heavier(program):
    asked = f"{program}; import sys; print(*sorted({HEAVY} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, timeout=120)
    assert set(done.stdout.split()) <= ENTRIES[program]
