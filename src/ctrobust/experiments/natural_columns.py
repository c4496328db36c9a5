"""The twelve settings that are the columns of tables 1 and 2."""

from ctrobust.experiments.natural_runs import NETWORK_TITLES, Setting
from ctrobust.experiments.table import Column

DATA_ABBREVIATIONS = {"mnist": "M", "fashion-mnist": "FM", "cifar10": "C10", "cifar100": "C100"}

SETTINGS = tuple(
    Setting(network, schedule, data)
    for network, pair in (
        ("mnistnet", ("mnist", "fashion-mnist")),
        ("vgg16", ("cifar10", "cifar100")),
        ("resnet50", ("cifar10", "cifar100")),
    )
    for schedule in ("cyclic", "multistep")
    for data in pair
)


def setting_column(setting: Setting) -> Column:
    """The column of a setting.

    Example:
        >>> setting_column(SETTINGS[0]).label
        'MNISTNet Cyclic M'
    """
    headers = NETWORK_TITLES[setting.network], setting.schedule.capitalize(), DATA_ABBREVIATIONS[setting.data]
    return Column(" ".join(headers), headers)


SETTING_COLUMNS = tuple(setting_column(setting) for setting in SETTINGS)
