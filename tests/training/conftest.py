"""The digits are enlarged once for all tests of this folder: that takes longer than training a few steps."""

import functools
from collections.abc import Iterator

import pytest

from ctrobust import data
from ctrobust.data.digits import load_digits

cached_load_digits = functools.cache(load_digits)


@pytest.fixture(autouse=True, scope="module")
def _cached_digits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "load_digits", cached_load_digits)
        yield
