"""The offline teacher: from a failed Cheap and a successful Strong rollout to the range where a handoff was due.

A teacher gives a `Mark` for an episode with AB = 01. There are four: a model behind an endpoint (`ModelTeacher`), a
rule for worlds in which handoffs can be replayed (`RuleTeacher`), one that looks at the diagnostics alone
(`mark_unproductive`), and people, whose marks come in a table (`read_marks`). `pairs_from_logs` shows imported logs to
a model. `mark_pairs` goes through a set of rollouts and can be stopped and resumed; `with_marks` puts the
windows into `Episodes`.
"""

from bayes_tacit.agents.teacher.dataset import Lesson, Teacher, TeacherError, mark_pairs
from bayes_tacit.agents.teacher.human import read_marks
from bayes_tacit.agents.teacher.join import with_marks
from bayes_tacit.agents.teacher.logs import pairs_from_logs
from bayes_tacit.agents.teacher.marks import Evidence, Mark
from bayes_tacit.agents.teacher.model import ModelTeacher
from bayes_tacit.agents.teacher.rule import RuleTeacher, feasible_by, stalled_for
from bayes_tacit.agents.teacher.unproductive import mark_unproductive

__all__ = [
    "Evidence",
    "Lesson",
    "Mark",
    "ModelTeacher",
    "RuleTeacher",
    "Teacher",
    "TeacherError",
    "feasible_by",
    "mark_pairs",
    "mark_unproductive",
    "pairs_from_logs",
    "read_marks",
    "stalled_for",
    "with_marks",
]
