"""The summary of a section in words that a reader outside the field follows."""

from collections.abc import Sequence
from dataclasses import dataclass

from ctrobust.reporting.attack_titles import read_attack
from ctrobust.reporting.masking_views import VerdictView
from ctrobust.reporting.number_texts import count_text, interval_text, listed, p_text, percent_text, points_text
from ctrobust.reporting.rankings import LeaderComparison, Ranking, Score
from ctrobust.reporting.report_models import Model
from ctrobust.reporting.report_sections import Condition, Section


@dataclass(frozen=True)
class Answer:
    """An answer to one question.

    Attributes:
        question: what a reader wants to know.
        name: the answer in a word or two, mostly a model.
        figure: the number that belongs to it, with its interval.
        sentences: what it means.
        level: "good", "warn", "bad", "unknown" or "" for the colour of a badge.
        command: what to run to know more.
    """

    question: str
    name: str
    figure: str
    sentences: Sequence[str]
    level: str = ""
    command: str = ""


def score_text(score: Score) -> str:
    """The accuracy with its interval, or its mean and spread over seeds."""
    if score.spread is None:
        return f"{percent_text(score.mean)} {interval_text(score.interval)}".strip()
    return f"{percent_text(score.mean)} ± {100 * score.spread:.1f}"


def accuracy_answer(ranking: Ranking) -> Answer:
    """Which model is most accurate without an attack."""
    best = ranking.leader
    images = count_text(best.count, "image")
    right = f"{percent_text(best.mean)} of {images} are classified correctly when nobody interferes{_seeds(best)}."
    return Answer("Which model is most accurate?", _names(ranking), score_text(best), [right, *_next(ranking)])


def _names(ranking: Ranking) -> str:
    """The best model, or those that share the first place."""
    return listed([score.model.name for score in ranking.scores if score.mean == ranking.leader.mean], limit=3)


def robustness_answer(section: Section, ranking: Ranking | None, classes: int | None) -> Answer:
    """Which model resists the attacks best."""
    question, headline = "Which model resists attacks best?", section.headline
    if ranking is None or headline is None:
        return Answer(question, "Nobody knows yet", "", ["No attack is stored for these models."])
    best, attacks = ranking.leader, len(headline.attacks)
    under = "the attack" if attacks == 1 else f"every one of {attacks} attacks"
    sentences = [
        f"{percent_text(best.mean)} of {count_text(best.count, 'image')} stay correct under {under} that "
        f"{'was' if attacks == 1 else 'were'} run on all models{_seeds(best)}. {_radius(headline.condition)}"
    ]
    if classes is not None and best.mean <= 1 / classes:
        sentences.insert(0, "None of the models resists: even the best one does no better than guessing.")
        return Answer(question, "None of them", score_text(best), [*sentences, *_next(ranking)], "bad")
    return Answer(question, _names(ranking), score_text(best), [*sentences, *_next(ranking)])


def _radius(condition: Condition) -> str:
    eps, norm = condition.eps, condition.norm
    size = read_attack(f"x:eps={eps}").radius
    if norm == "linf":
        return f"An attack may change each pixel by at most {eps}, {100 * size:.1f}% of the brightness range."
    return f"An attack may change an image by at most {eps} in the {norm.upper()} norm."


def _seeds(score: Score) -> str:
    if len(score.values) == 1:
        return ""
    values = ", ".join(f"{100 * value:.1f}" for value in score.values)
    return f", on average over {len(score.values)} seeds ({values})"


def _next(ranking: Ranking) -> list[str]:
    """The runner-up, and whether the lead is decisive."""
    if len(ranking.scores) == 1:
        return ["There is no other model to compare it with."]
    behind = [score for score in ranking.scores if score.mean < ranking.leader.mean]
    if not behind:
        return ["All models are equal in this."]
    second = behind[0]
    found = ranking.against(second.model)
    unknown = "Whether the difference is decisive is unknown: no evaluations of both on the same images are stored."
    decided = unknown if found is None else comparison_sentence(found)
    undecided = [one for score in behind[1:] if (one := ranking.against(score.model)) and not one.decisive]
    return [f"Next is {second.model.name} with {score_text(second)}. {decided}", *_undecided(undecided)]


def _undecided(comparisons: Sequence[LeaderComparison]) -> list[str]:
    """The models further behind over which the lead is not decisive either, mostly because their seeds differ."""
    if not comparisons:
        return []
    if len(comparisons) > 1:
        names = listed([one.other.name for one in comparisons])
        return [f"The leads over {names} are not decisive."]
    one = comparisons[0]
    seeds = f": it is ahead in {one.ahead} of {len(one.pairs)} pairs of seeds" if len(one.pairs) > 1 else ""
    return [f"The lead over {one.other.name} is not decisive{seeds}."]


def comparison_sentence(found: LeaderComparison) -> str:
    """Whether a lead is more than the choice of examples explains."""
    first = found.pairs[0]
    if len(found.pairs) == 1:
        where = f"on the same {count_text(found.count, 'image')}"
        interval = _points_interval(first.low, first.high)
        gap = f"{points_text(first.difference)} points {interval}, {p_text(first.test.p_value)}"
        if found.decisive:
            return f"The difference {where} is decisive ({gap})."
        choice = f", after accounting for the choice of the best of {found.tests + 1} models" if first.low > 0 else ""
        return f"The difference {where} is not decisive ({gap}){choice}: other images could reverse it."
    pairs = f"{count_text(len(found.pairs), 'pair')} of seeds"
    gap = f"by {points_text(found.difference)} points on average on the same {count_text(found.count, 'image')}"
    if found.decisive:
        return f"It is decisively ahead in each of {pairs}, {gap}."
    return f"The lead is not decisive: it is ahead in {found.ahead} of {pairs}, {gap}."


def _points_interval(low: float, high: float) -> str:
    return f"[{points_text(low)}, {points_text(high)}]"


def masking_answer(model: Model | None, verdict: VerdictView | None) -> Answer:
    """Whether the robustness of the most robust model is real, as far as it was tested."""
    question = "Is that robustness real?"
    if model is None or verdict is None:
        return Answer(question, "not tested", "", ["There is no robustness to test yet."], "unknown")
    sentences = [verdict.sentence]
    if verdict.level == "not tested":
        sentences.append("Attacks can fail because a network hides its gradients; then its robustness is an illusion.")
    return Answer(
        question, verdict.title, "", [f"{model.name}: {sentences[0]}", *sentences[1:]], verdict.colour, verdict.command
    )
