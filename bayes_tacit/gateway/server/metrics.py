"""What is counted, in the text format that Prometheus reads; of all workers, where they share a file."""

from __future__ import annotations

import os
import sqlite3
from bisect import bisect_left
from collections import Counter
from pathlib import Path

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper ends of the bins of durations."""

COUNTERS = {
    "tacit_requests_total": "Requests by who served them and the status of the answer.",
    "tacit_handoffs_total": "Sessions that were handed off.",
    "tacit_shadow_handoffs_total": "Sessions that the router in shadow would have handed off.",
    "tacit_faults_total": "What went wrong, by kind; the request was served all the same.",
    "tacit_fallbacks_total": "Requests that one side served because the other did not.",
    "tacit_skipped_messages_total": "Messages that could not be read, and were passed over.",
    "tacit_refused_total": "Requests without a key that fits.",
    "tacit_tokens_total": "Tokens, by side and kind.",
    "tacit_arms_total": "Sessions by the way to serve them that was drawn.",
    "tacit_reloads_total": "Times that routers were loaded anew.",
    "tacit_disconnects_total": "Clients that left before the end.",
    "tacit_undecided_total": "Requests of sessions that lack what the router looks at.",
    "tacit_cost_total": "What was spent, by side, in the unit of the prices.",
    "tacit_outcomes_total": "Outcomes that were posted back.",
}
DURATIONS = {
    "tacit_decision_seconds": "Time to decide.",
    "tacit_first_byte_seconds": "Time to the first byte of the answer, by side.",
    "tacit_answer_seconds": "Time to the end of the answer, by side.",
}


class Metrics:
    """Counts of one process.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.add("tacit_requests_total", side="cheap", status=200)
    >>> print(metrics.text(sessions=3).splitlines()[2])
    tacit_requests_total{side="cheap",status="200"} 1
    """

    def __init__(self) -> None:
        self.values: Counter[str] = Counter()

    def add(self, name: str, amount: float = 1, **labels: object) -> None:
        """Count."""
        self.values[_series(name, labels)] += amount  # type: ignore[assignment]

    def took(self, name: str, seconds: float, **labels: object) -> None:
        """Put a duration into its bin."""
        place = bisect_left(SECONDS, seconds)
        end = SECONDS[place] if place < len(SECONDS) else "+Inf"
        self.values[_series(f"{name}_bucket", {**labels, "le": end})] += 1
        self.values[_series(f"{name}_count", labels)] += 1
        self.values[_series(f"{name}_sum", labels)] += seconds  # type: ignore[assignment]

    def text(self, sessions: int, values: Counter[str] | None = None) -> str:
        """Write all of it, or what was counted in several processes."""
        values = self.values if values is None else values
        lines = []
        for name, what in COUNTERS.items():
            lines += [f"# HELP {name} {what}", f"# TYPE {name} counter"]
            found = sorted(series for series in values if series.partition("{")[0] == name)
            lines += [f"{series} {values[series]:g}" for series in found] or [f"{name} 0"]
        for name, what in DURATIONS.items():
            lines += [f"# HELP {name} {what}", f"# TYPE {name} histogram"]
            kinds = sorted(series[len(name) + 6 :] for series in values if series.startswith(f"{name}_count"))
            for labels in kinds or [""]:
                below = 0.0
                inner = labels[1:-1] + "," if labels else ""
                for end in (*SECONDS, "+Inf"):
                    series = f'{name}_bucket{{{inner}le="{end}"}}'
                    below += values[series]
                    lines.append(f"{series} {below:g}")
                lines += [f"{name}_{what}{labels} {values[f'{name}_{what}{labels}']:g}" for what in ("sum", "count")]
        lines += ["# HELP tacit_sessions Sessions that are kept.", "# TYPE tacit_sessions gauge"]
        return "\n".join([*lines, f"tacit_sessions {sessions}", ""])


class SharedMetrics(Metrics):
    """Counts of several processes, in a file that they share.

    A process writes its own row now and then; what a killed one had written stays counted.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._base = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
        self._base.execute(
            "CREATE TABLE IF NOT EXISTS metric (worker TEXT, series TEXT, value REAL,"
            " PRIMARY KEY (worker, series)) WITHOUT ROWID"
        )
        self._worker = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._written: Counter[str] = Counter()

    def write(self) -> None:
        """Bring the file up to date."""
        changed = [(self._worker, one, value) for one, value in self.values.items() if self._written[one] != value]
        if not changed:
            return
        self._base.execute("BEGIN IMMEDIATE")
        self._base.executemany("INSERT OR REPLACE INTO metric VALUES (?, ?, ?)", changed)
        self._base.execute("COMMIT")
        self._written = Counter(self.values)

    def text(self, sessions: int, values: Counter[str] | None = None) -> str:
        """Write what all processes have counted."""
        self.write()
        rows = self._base.execute("SELECT series, sum(value) FROM metric GROUP BY series").fetchall()
        return super().text(sessions, Counter(dict(rows)) if values is None else values)

    def close(self) -> None:
        """Write for the last time."""
        self.write()
        self._base.close()


def _series(name: str, labels: dict[str, object]) -> str:
    if not labels:
        return name
    return f"{name}{{{','.join(f'{key}="{value}"' for key, value in labels.items())}}}"
