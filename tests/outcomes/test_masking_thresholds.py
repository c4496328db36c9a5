"""The table of thresholds."""

from ctrobust.outcomes import THRESHOLDS


def test_masked_is_the_stronger_statement() -> None:
    for bounds in THRESHOLDS.values():
        assert bounds.suspicious is not None
        assert bounds.masked is None or bounds.suspicious <= bounds.masked
