"""One verdict from all checks."""

import pandas as pd
import pytest

from bayes_tacit.review.checks import CheckResult, headline


def check(passed: bool | None, name: str = "A check", **options: bool) -> CheckResult:
    return CheckResult(name, passed, pd.DataFrame(), f"{name} says so.", **options)


def verdict(*others: CheckResult, sampler: bool = True) -> tuple[str, bool]:
    found = headline([check(sampler, "Sampler"), *others])
    return found.level, found.passed


@pytest.mark.parametrize(
    ("failed", "level"), [(0, "good"), (1, "warning"), (2, "warning"), (3, "bad"), (4, "bad"), (5, "bad")]
)
def test_three_failed_checks_are_not_to_be_trusted_with_care(failed, level):
    results = [check(False)] * failed + [check(True)] * (5 - failed)
    assert verdict(*results) == (level, level == "good")


def test_what_compares_predictions_with_data_decides_alone():
    assert verdict(check(False, decisive=True), check(True)) == ("bad", False)
    assert verdict(check(True, decisive=True), check(True)) == ("good", True)


def test_the_samplers_check_comes_before_all_others():
    assert verdict(check(True), sampler=False) == ("bad", False)


def test_what_could_not_be_judged_is_no_pass_and_a_hint_does_not_count():
    assert verdict(check(None), check(True)) == ("warning", False)
    for told in (True, False, None):
        assert verdict(check(told, hint=True), check(True)) == ("good", True)
