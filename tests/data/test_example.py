import numpy as np
import pytest

from bayes_tacit import fit_map, load_example
from bayes_tacit.errors import TacitWarning
from simulations.example import TRUTH, simulate_example


def test_the_bundled_file_is_what_the_script_makes(example):
    with pytest.warns(TacitWarning, match="AB = 01 without a window"):
        assert simulate_example().identical(example)


def test_the_example_has_every_kind_of_episode(example):
    assert len(example) >= 1000
    assert len(example.diagnostic_names) == 4
    for outcome in ("00", "01", "10", "11"):
        assert (example.outcomes == outcome).sum() > 50
    widths = (example.dataset["window_end"] - example.dataset["window_start"]).values
    assert (widths == 0).sum() > 100
    assert (widths > 0).sum() > 100
    assert ((example.outcomes == "01") & ~example.has_window).sum() > 20
    assert len(np.unique(example.dataset["n_steps"])) > 10


def test_the_truth_is_recovered_within_its_standard_errors():
    fit = fit_map(load_example(), ridge=0.0)
    for name, truth in TRUTH.items():
        z = (np.asarray(getattr(fit, name)) - np.asarray(truth)) / fit.standard_errors[name]
        assert np.abs(z).max() < 3.5, name
