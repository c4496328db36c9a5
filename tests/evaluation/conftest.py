"""Tiny trained networks, kept between test sessions."""

from pathlib import Path

import pytest

from ctrobust import data


@pytest.fixture(scope="session")
def planted_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where trained networks are kept: pytest's cache, or a temporary folder if there is none."""
    cache = request.config.cache
    return Path(cache.mkdir("planted-networks")) if cache is not None else tmp_path_factory.mktemp("planted-networks")


@pytest.fixture(scope="session")
def digits() -> data.Dataset:
    return data.load("digits", "test")
