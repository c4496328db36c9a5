from ctrobust.errors import closest


def test_the_closest_known_name_is_suggested() -> None:
    assert closest("pdg", ["fgsm", "pgd"]) == "did you mean 'pgd'? known: fgsm, pgd"
    assert closest("PGD", {"pgd": 1}) == "did you mean 'pgd'? known: pgd"
    assert closest("xyz", ["fgsm", "pgd"]) == "known: fgsm, pgd"
