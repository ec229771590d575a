"""How a verdict is made of diagnostics, and how it shows itself."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayes_tacit import Verdict
from bayes_tacit.estimates.verdict import _agreement

TABLE = pd.DataFrame({"rhat": [1.2], "ess_bulk": [40.4], "ess_tail": [33.0]}, index=["beta[<b>]"])


def test_a_failed_verdict_shows_sentence_and_reasons_on_a_terminal_and_in_jupyter():
    verdict = Verdict(False, "Do not trust it.", ("R-hat of beta[<b>] is 1.2: raise `tune`.",), TABLE)
    assert repr(verdict) == str(verdict) == "Do not trust it.\n- R-hat of beta[<b>] is 1.2: raise `tune`."
    html = verdict._repr_html_()
    assert "<strong>Do not trust it.</strong>" in html
    assert "<li>R-hat of beta[&lt;b&gt;] is 1.2: raise <code>tune</code>.</li>" in html
    assert '<td class="number">40</td>' in html
    assert "<b>" not in html


def test_a_passed_verdict_has_no_list():
    assert "<li>" not in Verdict(True, "All is well.", (), TABLE)._repr_html_()


@pytest.mark.parametrize("column", ["rhat", "ess_bulk", "ess_tail"])
def test_a_diagnostic_that_is_not_a_number_is_not_within_its_limit(column):
    table = pd.DataFrame({"rhat": [1.0, 1.0], "ess_bulk": [900.0, 900.0], "ess_tail": [900.0, 900.0]}, index=["s", "w"])
    assert list(_agreement(table, chains=4, draws=1000)) == []
    table.loc["w", column] = np.nan
    (reason,) = _agreement(table, chains=4, draws=1000)
    assert "w (nan)" in reason
