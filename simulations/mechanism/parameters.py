"""Mechanism: every number inside the mechanism simulator, checked, readable, and kept in a JSON file."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from bayes_tacit import validate
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingFileError
from bayes_tacit.files import as_path, atomic_path

ON_TRACK, RECOVERABLE, OFF_TRACK = STATES = (0, 1, 2)

Triple = tuple[float, float, float]
"""One number for each state: on track, recoverable, off track."""

CALIBRATED_FILE = Path(__file__).with_name("parameters.json")
"""What `python -m simulations.mechanism.calibrate` wrote."""

_SHARES = ("x1_correlation", "x2_correlation", "risk_persistence", "teacher_gain")
_NON_NEGATIVE = ("threshold_spread", "risk_of_error", "risk_noise", "cheap_cost", "strong_cost")


@dataclass(frozen=True)
class Mechanism:
    r"""Parameters of the ten-step, three-state simulator.

    A task has two hidden standard normal traits: its difficulty z, and its resistance v to Strong. In a step an actor
    acts correctly with a probability given by the state; then the state moves; then, if Cheap acted, a risk is emitted
    from the new state. An episode starts on track and ends at its last needed correct action, a success, or after all
    its steps, a failure.

    See Also
    --------
    calibrated : the parameters that the studies use.

    Examples
    --------
    >>> from dataclasses import replace
    >>> replace(calibrated(), risk_noise=-1.0)
    Traceback (most recent call last):
        ...
    bayes_tacit.errors.InvalidDataError: risk_noise is -1.0; expected a finite number >= 0
    """

    # cheap_correct, strong_correct: Probability of a correct action by state, for a task with z = v = 0.
    cheap_correct: Triple
    strong_correct: Triple
    # cheap_moves, strong_moves: Transition probabilities: a row for each state that is left, a column for each that
    # is entered.
    cheap_moves: tuple[Triple, Triple, Triple]
    strong_moves: tuple[Triple, Triple, Triple]
    difficulty_on_cheap: float  # Cheap's logit of a correct action falls by this much per unit of z
    # Cheap's moves are reweighted by :math:`(e^{-dz}, 1, e^{dz})`, d being this number, and normalized.
    difficulty_on_drift: float
    # difficulty_on_strong, resistance_on_strong: Strong's logit of a correct action falls by this much per unit of z
    # and of v.
    difficulty_on_strong: float
    resistance_on_strong: float
    # x1_correlation, x2_correlation: How much the visible features x1 and x2 say about z and about v.
    x1_correlation: float
    x2_correlation: float
    # threshold_center, threshold_difficulty, threshold_spread: The log of a task's threshold is center + difficulty *
    # z + spread * noise. It enters the teacher's marks only.
    threshold_center: float
    threshold_difficulty: float
    threshold_spread: float
    # risk_mean, risk_of_error: Mean of the risk by the state after the step, and what a wrong action adds to it.
    risk_mean: Triple
    risk_of_error: float
    # risk_noise, risk_persistence: Standard deviation of the noise on the risk, and the share of its variance that is
    # one draw for the whole task. The risk that is seen is cut off at zero.
    risk_noise: float
    risk_persistence: float
    # steps, needed: Length of an episode, and how many correct actions are a success.
    steps: int = 10
    needed: int = 8
    # cheap_cost, strong_cost: What a step of each actor costs.
    cheap_cost: float = 1.0
    strong_cost: float = 3.0
    # teacher_checkpoints, teacher_gain: The teacher looks at the first so many checkpoints, and marks one only if
    # Strong's probability of a correct next action is above Cheap's by at least so much.
    teacher_checkpoints: int = 5
    teacher_gain: float = 0.08

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("cheap_correct", "strong_correct"):
            self._set(name, _triple(name, getattr(self, name), "a probability above 0 and below 1", above=0, below=1))
        for name in ("cheap_moves", "strong_moves"):
            self._set(name, _rows(name, getattr(self, name)))
        self._set("risk_mean", _triple("risk_mean", self.risk_mean, "a finite number >= 0", least=0))
        for field in fields(self):
            if field.type == "float":
                self._set(field.name, _float(field.name, getattr(self, field.name)))
        for name in ("steps", "needed", "teacher_checkpoints"):
            self._set(name, validate.whole(name, getattr(self, name), 1))
        if self.needed > self.steps:
            raise InvalidDataError(f"at most {self.steps}, the number of steps", field="needed", value=self.needed)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters by name, as JSON can hold them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any], where: str | None = None) -> Mechanism:
        """Make a mechanism from parameters by name; those with a default may be missing."""
        if not isinstance(given, Mapping):
            raise InvalidDataError("parameters by name", field="mechanism", value=given, where=where)
        known = {field.name: field for field in fields(cls)}
        required = {"steps", "needed", "cheap_cost", "strong_cost", "teacher_checkpoints", "teacher_gain"} ^ set(known)
        for name in sorted(set(given) - set(known)):
            raise InvalidDataError(f"one of {list(known)}", field="parameter", value=name, where=where)
        for name in sorted(required - set(given)):
            raise InvalidDataError("a value", field=name, value="missing", where=where)
        return cls(**given)


def with_feature_information(mechanism: Mechanism, factor: float) -> Mechanism:
    r"""Change only how much the features say: multiply their signal-to-noise ratios.

    The ratio of a feature is :math:`r^2 / (1 - r^2)`, r being its correlation with the hidden trait; a factor of 0
    makes both features pure noise. Actors, risks and thresholds do not change.

    Examples
    --------
    >>> with_feature_information(calibrated(), 0).x1_correlation
    0.0
    """
    factor = validate.number("factor", factor, "a finite number >= 0", least=0)

    def scaled(r: float) -> float:
        return math.sqrt(factor * r * r / (1 - r * r + factor * r * r)) if r < 1 else 1.0

    return replace(
        mechanism, x1_correlation=scaled(mechanism.x1_correlation), x2_correlation=scaled(mechanism.x2_correlation)
    )


def with_risk_noise(mechanism: Mechanism, factor: float) -> Mechanism:
    """Change only the noise of the risks: multiply its standard deviation. Actors and features do not change.

    Examples
    --------
    >>> with_risk_noise(calibrated(), 0).risk_noise
    0.0
    """
    factor = validate.number("factor", factor, "a finite number >= 0", least=0)
    return replace(mechanism, risk_noise=factor * mechanism.risk_noise)


@dataclass(frozen=True)
class Calibration:
    """A mechanism, the settings of its two sensitivity axes, and how they were found."""

    mechanism: Mechanism  # The baseline
    # feature_factors, noise_factors: Five settings of each axis, for `with_feature_information` and
    # `with_risk_noise`, by rising success; 1 is the baseline.
    feature_factors: tuple[float, ...]
    noise_factors: tuple[float, ...]
    provenance: Mapping[str, Any]  # The command, seeds and score of the search

    def __post_init__(self) -> None:
        """Check the settings of the axes."""
        for name, rising in (("feature_factors", 1), ("noise_factors", -1)):
            given = getattr(self, name)
            if not isinstance(given, Sequence) or 1 not in given:
                raise InvalidDataError("a list of factors with the baseline 1 among them", field=name, value=given)
            factors = tuple(validate.number(name, one, "a finite number >= 0", least=0) for one in given)
            if list(factors) != sorted(set(factors), reverse=rising < 0):
                expected = "rising factors" if rising > 0 else "falling factors: less noise, more success"
                raise InvalidDataError(expected, field=name, value=given)
            object.__setattr__(self, name, factors)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a JSON file."""
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Calibration:
        """Read what `write` wrote."""
        file = as_path(path)
        try:
            content = json.loads(file.read_text())
        except FileNotFoundError:
            raise MissingFileError(f"{file}: no such file; expected the JSON file of a calibration") from None
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise FileFormatError(f"{file}: {error}; expected the JSON file of a calibration") from None
        names = {field.name for field in fields(cls)}
        if not isinstance(content, dict) or set(content) != names:
            raise FileFormatError(f"{file}: expected an object with exactly {sorted(names)}")
        mechanism = Mechanism.from_dict(content.pop("mechanism"), where=str(file))
        return cls(mechanism=mechanism, **content)


def calibration() -> Calibration:
    """Return the committed calibration."""
    return Calibration.read(CALIBRATED_FILE)


def calibrated() -> Mechanism:
    """Return the parameters that the studies use."""
    return calibration().mechanism


def _triple(name: str, given: object, expected: str, **bounds: float) -> Triple:
    if not isinstance(given, Sequence) or len(given) != len(STATES):
        raise InvalidDataError("three numbers, one for each state", field=name, value=given)
    first, second, third = (validate.number(f"{name}[{i}]", one, expected, **bounds) for i, one in enumerate(given))
    return first, second, third


def _rows(name: str, given: object) -> tuple[Triple, Triple, Triple]:
    if not isinstance(given, Sequence) or len(given) != len(STATES):
        raise InvalidDataError("three rows, one for each state that is left", field=name, value=given)
    rows = [_triple(f"{name}[{i}]", row, "a probability from 0 to 1", least=0, most=1) for i, row in enumerate(given)]
    for i, row in enumerate(rows):
        if not math.isclose(sum(row), 1, abs_tol=1e-6):
            raise InvalidDataError("probabilities that sum to 1", field=f"{name}[{i}]", value=row)
    first, second, third = rows
    return first, second, third


def _float(name: str, given: object) -> float:
    if name in _SHARES:
        return validate.number(name, given, "a number from 0 to 1", least=0, most=1)
    if name in _NON_NEGATIVE:
        return validate.number(name, given, "a finite number >= 0", least=0)
    return validate.number(name, given)
