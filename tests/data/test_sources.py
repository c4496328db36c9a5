from ctrobust.data.cifar import CIFAR10, CIFAR100
from ctrobust.data.mnist import FILES
from ctrobust.data.sources import SOURCES


def test_every_file_has_its_addresses_size_and_checksum() -> None:
    remotes = [remote for source in SOURCES.values() for remote in source.files]
    assert len({remote.sha256 for remote in remotes}) == len(remotes) == 10
    for remote in remotes:
        assert all(url.startswith(("https://", "http://")) and url.endswith("/" + remote.name) for url in remote.urls)
        assert len(bytes.fromhex(remote.sha256)) == 32
        assert 4_000 < remote.size < 200_000_000


def test_folders_and_names_are_those_that_loading_looks_for() -> None:
    for name in ("mnist", "fashion-mnist"):
        assert SOURCES[name].folder == name
        wanted = {f"{file}.gz" for files in FILES.values() for file in files}
        assert {remote.name for remote in SOURCES[name].files} == wanted
    for published in (CIFAR10, CIFAR100):
        source = SOURCES[published.name]
        assert source.folder == published.folder
        assert set(source.members) == {*published.sha256, published.names_file}
    assert SOURCES["cifar10"].members["data_batch_5.bin"] == 30_730_000
    assert SOURCES["cifar100"].members["train.bin"] == 153_700_000
