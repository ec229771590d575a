"""How a verdict shows itself."""

from __future__ import annotations

import pandas as pd

from bayes_tacit import Verdict

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
