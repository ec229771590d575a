"""What a policy may see of an episode: its features and diagnostics, and nothing that is known only afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.layout import OUTCOMES, VARIABLES, WINDOW, carried_variables
from bayes_tacit.errors import InvalidDataError

SO_FAR = ("total", "last", "highest")
"""What is remembered of each diagnostic."""


@dataclass(frozen=True, eq=False)
class Visible:
    """All that decisions are computed from.

    Attributes
    ----------
    feature_names, features
        (episode, feature).
    diagnostic_names, diagnostics
        (episode, step, diagnostic), NaN past the end of an episode.
    n_steps
        (episode,), which is seen when an episode ends.
    carried
        Carried variables that a policy looks at, by name: (episode,) or (episode, step).
    """

    feature_names: tuple[str, ...]
    features: np.ndarray
    diagnostic_names: tuple[str, ...]
    diagnostics: np.ndarray
    n_steps: np.ndarray
    carried: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, episodes: Episodes, names: tuple[str, ...] = ()) -> Visible:
        """Take what may be seen out of episodes.

        Parameters
        ----------
        episodes
            Episodes.
        names
            Names that a policy looks at; those that are carried variables are taken too.
        """
        if not isinstance(episodes, Episodes):
            raise InvalidDataError("Episodes", field="episodes", value=episodes)
        dataset = episodes.dataset
        wanted = set(names).intersection(carried_variables(dataset)) if names else ()
        return cls(
            feature_names=tuple(dataset["feature"].values.tolist()),
            features=dataset["features"].values,
            diagnostic_names=tuple(dataset["diagnostic"].values.tolist()),
            diagnostics=dataset["diagnostics"].values,
            n_steps=dataset["n_steps"].values,
            carried={name: dataset[name].values for name in wanted},
        )

    def __len__(self) -> int:
        return len(self.n_steps)

    def task_columns(self, names: tuple[str, ...]) -> np.ndarray:
        """Return numbers that are known before the task begins, (episode, name): features, or carried by episode."""
        if names == self.feature_names:
            return self.features
        place = {name: at for at, name in enumerate(self.feature_names)}
        columns = [self.features[:, place[name]] if name in place else self._of_carried(name, 1) for name in names]
        return np.column_stack(columns) if columns else np.empty((len(self), 0))

    def step_columns(self, names: tuple[str, ...]) -> np.ndarray:
        """Return diagnostics, or what is carried by step: (episode, step, name), NaN past the end of an episode."""
        if names == self.diagnostic_names:
            return self.diagnostics
        columns = [self.step_values(name) for name in names]
        return np.stack(columns, axis=2) if columns else np.empty((*self.diagnostics.shape[:2], 0))

    def step_values(self, name: str) -> np.ndarray:
        """Return one diagnostic, or what is carried by step: (episode, step), NaN past the end of an episode."""
        if name in self.diagnostic_names:
            return self.diagnostics[:, :, self.diagnostic_names.index(name)]
        values = self._of_carried(name, 2)
        inside = np.arange(values.shape[1]) < self.n_steps[:, None]
        wrong = inside & np.isnan(values)
        if wrong.any():
            row, step = (int(at) for at in np.unravel_index(wrong.argmax(), wrong.shape))
            where = f"row {row}, step {step}"
            raise InvalidDataError("a number for each step of the rollout", field=name, value=np.nan, where=where)
        return np.where(inside, values, np.nan)

    def so_far(self, features: tuple[str, ...]) -> np.ndarray:
        """Return what is known at each checkpoint, (episode, step, column); NaN past the end of an episode.

        Columns are the features, and of each diagnostic the sum so far, the latest and the highest value, as
        `names_so_far` calls them.
        """
        values, shape = self.diagnostics, self.diagnostics.shape[:2]
        task = np.broadcast_to(self.task_columns(features)[:, None], (*shape, len(features)))
        return np.concatenate([task, np.cumsum(values, axis=1), values, np.maximum.accumulate(values, axis=1)], axis=2)

    def names_so_far(self, features: tuple[str, ...]) -> tuple[str, ...]:
        """Name the columns of `so_far`."""
        return (*features, *(f"{word} {name}" for word in SO_FAR for name in self.diagnostic_names))

    def one_diagnostic(self, name: str | None) -> str:
        """Return the given name, or that of the only diagnostic there is."""
        if name is None and len(self.diagnostic_names) != 1:
            raise InvalidDataError(f"the name of one of {list(self.diagnostic_names)}", field="diagnostic", value=None)
        return self.diagnostic_names[0] if name is None else name

    def _of_carried(self, name: str, dims: int) -> np.ndarray:
        values = self.carried.get(name)
        if values is None or values.ndim != dims or values.dtype.kind not in "bif":
            known = self.feature_names if dims == 1 else self.diagnostic_names
            what = f"one of {list(known)}, or a carried variable with a number for each"
            if dims == 1:
                raise InvalidDataError(f"{what} episode", field="feature", value=name)
            raise InvalidDataError(f"{what} step", field="diagnostic", value=name)
        return values.astype(float)


def visible(episodes: Episodes) -> Episodes:
    """Return episodes as they look before anything about them is known but features and diagnostics.

    Outcomes and windows are blank, and what was carried along is left out. It is for what takes `Episodes`.
    """
    n = len(episodes)
    blank = {name: ("episode", np.zeros(n, dtype=bool)) for name in OUTCOMES}
    blank |= {name: ("episode", np.full(n, np.nan)) for name in WINDOW}
    return Episodes._of(episodes.dataset[list(VARIABLES)].assign(blank))
