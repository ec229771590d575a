"""Which policy to use: every family fitted, chosen under a budget, judged on tasks that it was not chosen on."""

from bayes_tacit.policies.recommending.families import families
from bayes_tacit.policies.recommending.from_logs import LogsRecommendation, recommend_from_logs
from bayes_tacit.policies.recommending.recommend import recommend
from bayes_tacit.policies.recommending.recommendation import Recommendation

__all__ = ["LogsRecommendation", "Recommendation", "families", "recommend", "recommend_from_logs"]
