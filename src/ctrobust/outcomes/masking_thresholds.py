"""When a masking test is suspicious, and when it says masked: one table, calibrated, and what it needs besides.

`benchmarks/verdict.py` prints what every test measures on honestly trained and on planted networks beside these
thresholds.
"""

from typing import NamedTuple

PAIRED_P = 0.01
"""The significance level of paired comparisons: McNemar's exact test, one-sided."""


GAIN = 0.05
"""The gain in the last tenth of the steps, relative to the whole run's, above which an ascent is unfinished."""

BROKEN_BY_MANY, LEFT_BY_ONE = 0.05, 0.25
"""FGSM hides that PGD breaks nearly all if PGD leaves at most the first share of what FGSM leaves, and FGSM more than
the second share of the correctly classified examples. Natural networks lose nearly all examples under PGD at large
radii too, but few are then left by FGSM: of Fashion-MNIST's at 16/255 PGD leaves a fifth of what FGSM leaves."""

MOST_LEFT_BY_MANY = 0.05
"""The upper end of the 95% interval of what PGD leaves must be below this share before PGD is said to break all: of
few examples it may break all by chance."""

FEW_BROKEN = 0.05
"""Below this share of broken examples, and below this share of remaining ones, accuracy cannot be seen to fall."""

FEWEST_EXAMPLES = 3
"""A share of examples raises something only if it is made of this many, so that a single odd one raises nothing."""


class Threshold(NamedTuple):
    """The bounds of one number: the level is raised where the number exceeds them; None is never raised."""

    number: str
    suspicious: float | None
    masked: float | None


THRESHOLDS: dict[str, Threshold] = {
    "randomized": Threshold("largest relative distance between logits of the same images", 1e-4, None),
    "zero gradients": Threshold("share of correct images whose gradient is exactly 0", 0.0, 0.05),
    "one step beats many": Threshold("points by which FGSM is below PGD-20, paired", 0.0, 0.05),
    "unlimited radius": Threshold("accuracy under PGD-100 without a bound; masked above 1/C", 0.0, None),
    "radius does not help": Threshold("points that accuracy rises with the radius, paired; FGSM: suspicious", 0.0, 0.0),
    "more effort helps": Threshold("points found by twice the steps or by 5 starts, paired", 0.02, 0.08),
    "unfinished ascent": Threshold("share of robust examples that gain > 0.05 in the last steps", 0.05, None),
    "silent success": Threshold("share of examples with an adversarial iterate that PGD then left", 0.02, None),
    "loss decides": Threshold("points that APGD-CE misses, paired", 0.08, 0.20),
    "unstable loss surface": Threshold("mean relative change of the margin under noise", 0.5, None),
    "noise": Threshold("share of all examples that only noise breaks", 0.0, 0.01),
    "black box beats white box": Threshold("share of all examples that only Square breaks", 0.002, 0.05),
    "transfer": Threshold("share of all examples that only images of another network break", 0.0, 0.05),
    "binarization": Threshold("share of the binarized problems that the attack does not solve", 0.05, 0.50),
}
"""Test -> its bounds, in the order in which the tests are run: nearly free ones first."""
