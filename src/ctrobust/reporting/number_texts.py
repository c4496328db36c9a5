"""Numbers as a report writes them."""

from collections.abc import Sequence

PercentPair = tuple[float, float] | None


def percent_text(share: float) -> str:
    """A share in percent with one decimal.

    Example:
        >>> percent_text(0.4132)
        '41.3%'
    """
    return f"{100 * share:.1f}%"


def interval_text(interval: PercentPair) -> str:
    """An interval of shares, in percent.

    Example:
        >>> interval_text((0.3829, 0.4439)), interval_text(None)
        ('[38.3, 44.4]', '')
    """
    return "" if interval is None else f"[{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"


def points_text(difference: float) -> str:
    """A difference of shares in points, with its sign and a real minus.

    Example:
        >>> points_text(0.027), points_text(-0.0004)
        ('+2.7', '0.0')
    """
    text = f"{100 * difference:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def p_text(p: float) -> str:
    """A p-value with two significant digits; small ones as a bound.

    Example:
        >>> p_text(0.0312), p_text(1e-9), p_text(1.0)
        ('p = 0.031', 'p < 0.0001', 'p = 1')
    """
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def count_text(count: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    Example:
        >>> count_text(1, "seed"), count_text(1200, "image"), count_text(2, "class", "classes")
        ('1 seed', '1,200 images', '2 classes')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def listed(texts: Sequence[str], limit: int = 6) -> str:
    """Texts as a list in a sentence, the rest of a long one as a number.

    Example:
        >>> listed(["A", "B", "C"]), listed(["A", "B", "C"], limit=1)
        ('A, B and C', 'A and 2 others')
    """
    shown, rest = list(texts[:limit]), len(texts) - limit
    if rest > 0:
        shown.append(f"{rest} other{'s' if rest > 1 else ''}")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else ""
