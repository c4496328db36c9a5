"""Learning rate and momentum as pure functions of the step, so that a checkpoint need not hold them."""

from ctrobust.specs import ScheduleSpec, TrainSpec


def peak_rate(spec: TrainSpec, epoch: int) -> float:
    """Return the largest rate of the schedule in epoch `epoch`, from 0: that of the last change before it.

    Example:
        >>> spec = TrainSpec(lr=0.5, lr_changes=((2, 0.05),))
        >>> [peak_rate(spec, epoch) for epoch in range(4)]
        [0.5, 0.5, 0.05, 0.05]
    """
    return next((rate for epochs, rate in reversed(spec.lr_changes) if epochs <= epoch), spec.lr)


def learning_rate(schedule: ScheduleSpec, peak: float, step: int, steps: int, epoch: int, epochs: int) -> float:
    """Return the learning rate of optimizer step `step` of `steps`, in epoch `epoch` of `epochs`, both from 0."""
    factor = cyclic(step, steps) if schedule.name == "cyclic" else multistep(schedule, epoch, epochs)
    return peak * factor * (warmup(epoch, epochs) if schedule.warmup else 1.0)


MOMENTUM_AMPLITUDE = 0.1
"""The reference cycles the momentum from 0.9 to 0.8 and back."""


def cycled_momentum(schedule: ScheduleSpec, momentum: float, step: int, steps: int) -> float:
    """Return the momentum of an optimizer step: m - 0.1 (1 - |2t/T - 1|) if it is cycled, as in torch's CyclicLR.

    Example:
        >>> spec = ScheduleSpec(cycle_momentum=True)
        >>> [round(cycled_momentum(spec, 0.9, t, 4), 4) for t in range(4)]
        [0.9, 0.85, 0.8, 0.85]
    """
    return momentum - MOMENTUM_AMPLITUDE * cyclic(step, steps) if schedule.cycle_momentum else momentum


def cyclic(step: int, steps: int) -> float:
    """One triangle over the run, 1 - |2t/T - 1|.

    Example:
        >>> [cyclic(t, 4) for t in range(4)]
        [0.0, 0.5, 1.0, 0.5]
    """
    return 1.0 - abs(2.0 * step / steps - 1.0)


def multistep(schedule: ScheduleSpec, epoch: int, epochs: int) -> float:
    """`factor` to the power of the milestones reached: shares of the epochs, rounded down, none before epoch 1.

    Example:
        >>> spec = ScheduleSpec(name="multistep", milestones=(2 / 3, 5 / 6))
        >>> [multistep(spec, epoch, 50) for epoch in (32, 33, 40, 41)]
        [1.0, 0.1, 0.1, 0.010000000000000002]
    """
    reached = sum(epoch >= max(1, int(share * epochs + 1e-9)) for share in schedule.milestones)
    return float(schedule.factor**reached)


def warmup(epoch: int, epochs: int) -> float:
    """The paper's warm-up: k_1 = 0.001, k_{i+1} = k_i (1 - i/I) + i/I, I = max(1, floor(epochs / 10)).

    Example:
        >>> [round(warmup(epoch, 50), 7) for epoch in range(6)]
        [0.001, 0.2008, 0.52048, 0.808192, 0.9616384, 1.0]
    """
    length = max(1, epochs // 10)
    factor = 0.001
    for i in range(1, min(epoch, length) + 1):
        factor = factor * (1 - i / length) + i / length
    return factor
