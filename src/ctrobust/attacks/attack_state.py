"""The state of an attack on a batch: active examples, images found, and the passes through the model."""

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn

from ctrobust.attacks.attack_losses import AttackLoss
from ctrobust.attacks.eot import EOTAverage
from ctrobust.attacks.finite_checks import (
    NO_GRADIENT,
    bound_infinite,
    check_finite_logits,
    check_gradient,
    check_magnitudes,
    count_if_finite,
    gradient_magnitude,
    input_gradient,
)
from ctrobust.attacks.fused import FusedModel
from ctrobust.attacks.model_checks import (
    check_labels,
    check_logits,
    check_logits_shape,
    clean_pass,
    warn_of_probabilities,
)
from ctrobust.attacks.result import AttackResult
from ctrobust.errors import InputError

RERUN_BELOW_SHARE = 0.6
"""A backward pass takes about 1.5 times as long as a forward pass: below this share of active examples, another forward
pass of these alone costs less than a backward pass of the whole batch."""


class ResumeState:
    """Where a long stage writes its progress and reads it when it resumes; this one stores nothing."""

    def read(self) -> dict[str, Tensor] | None:
        """Return what was last written; None at the beginning of a stage."""
        return None

    def write(self, state: Callable[[], Mapping[str, Tensor]]) -> None:
        """Store the state if it is time to: `state` is called only then."""

    def report_progress(self, share: float) -> None:
        """Report which share of this stage is done."""


class AttackState:
    """The batch that an attack works on. Positions (n,) index the batch; every pass through the model is counted.

    The caller has checked the batch with `check_batch`. Each call of `forward` or `gradient` makes the host wait for a
    GPU once, and each call of `gradient_of_active` twice.

    Attributes:
        model: the model that is differentiated: the fused copy where there is one.
        original: the user's model, which checks each success of the fused copy.
        x, y, keys: images (N, ...), labels (N,) and the keys of the random draws (N,).
        targeted: whether y are the classes to reach rather than the right ones.
        verify_last: whether an attack must classify its final iterate.
        verify_successes: whether `confirm` classifies the successes of a fused copy by the original model.
        found: (N, ...) the image that fooled the model, else the last one that was recorded.
        fooled: (N,) bool.
        forwards, backwards: (N,) int64.
        resume_state: where a long stage stores its state.
        warm_start: (N, ...) images in the ball from which the first restart begins instead of its own start; None where
            there are none.
    """

    def __init__(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        keys: Tensor | None = None,
        clean_logits: Tensor | None = None,
        *,
        targeted: bool = False,
        verify_last: bool = True,
        verify_successes: bool = True,
        resume_state: ResumeState | None = None,
        warm_start: Tensor | None = None,
    ) -> None:
        self.model = model
        self.original = model.original if isinstance(model, FusedModel) else model
        self.keys = torch.arange(len(x), device=x.device) if keys is None else keys
        # Copies: labels of any integer type become int64, and tensors made in inference mode may be differentiated.
        self.x, self.y = x.detach().clone(), y.to(torch.int64, copy=True)
        self.targeted, self.verify_last, self.verify_successes = targeted, verify_last, verify_successes
        self.found = self.x.clone()
        self.fooled = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        self.forwards = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        self.backwards = torch.zeros_like(self.forwards)
        self.resume_state, self.warm_start = resume_state or ResumeState(), warm_start
        self._clean = None if clean_logits is None else check_logits(clean_logits.detach().clone(), self.y)
        self._verified = self.fooled.clone()
        self._labels_fit = 0 if self._clean is None else self._clean.shape[1]

    @property
    def clean_known(self) -> bool:
        """Whether reading the clean logits needs no forward pass."""
        return self._clean is not None

    @property
    def clean(self) -> Tensor:
        """The logits (N, C) of the clean images by the original model; the first read makes a forward pass."""
        if self._clean is None:
            self.forwards += 1
            self._clean = self._check_first(clean_pass(self.original, self.x, self.y))
        return self._clean

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.clean.shape[1]

    def active(self) -> Tensor:
        """Return the positions (n,) of the examples that are not fooled."""
        return (~self.fooled).nonzero()[:, 0]

    def wrong(self, logits: Tensor, index: Tensor) -> Tensor:
        """Return (n,) whether logits (n, C) of the examples at these positions mean success."""
        right = logits.argmax(1) == self.y[index]
        return right if self.targeted else ~right

    def drop_misclassified(self) -> None:
        """Count examples whose clean image is misclassified as fooled by that image."""
        misclassified = self.wrong(self.clean, torch.arange(len(self.x), device=self.x.device))
        self.fooled |= misclassified
        self._verified |= misclassified

    def target(self, index: Tensor, rank: int) -> Tensor:
        """Return (n,) the wrong class of that rank, from 1, by the clean logits."""
        wrong = self.clean[index].scatter(1, self.y[index, None], -torch.inf)
        return wrong.argsort(stable=True, dim=1, descending=True)[:, rank - 1]

    def start(self, index: Tensor, restart: int, cold: Callable[[Tensor, Tensor], Tensor] | None) -> Tensor:
        """Return where the examples at these positions begin: the warm start, `cold(x, keys)`, or the image itself."""
        if self.warm_start is not None and restart == 0:
            return self.warm_start[index]
        x = self.x[index]
        return x if cold is None else cold(x, self.keys[index])

    def forward(self, at: Tensor, index: Tensor) -> Tensor:
        """Return the logits (n, C) of images (n, ...) of the examples at these positions."""
        self.forwards[index] += 1
        with torch.no_grad():
            logits = self._check_first(check_logits_shape(self.model(at), len(index)))
        return check_finite_logits(logits)

    def gradient(
        self, at: Tensor, index: Tensor, attack_loss: AttackLoss, *, target: Tensor | None = None, eot: int = 1
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradient of the summed losses with respect to the images, the losses (n,) and the logits (n, C).

        With `eot` > 1 they are the gradient and the values of the mean loss over `eot` passes, for models that draw at
        random, and the mean logits.
        """
        self.forwards[index] += eot
        self.backwards[index] += eot
        if eot == 1:
            leaf, logits = self._forward(at, index)
            gradient, values = self._backward(leaf, logits, index, attack_loss, target)
            return check_gradient(gradient, logits), values, logits.detach()
        average = EOTAverage(attack_loss, negated=self.targeted or target is not None)
        magnitudes = []
        for _ in range(eot):
            leaf, logits = self._forward(at, index)
            gradient, values = self._backward(leaf, logits, index, attack_loss, target)
            magnitudes.append(gradient_magnitude(gradient, logits))
            average.add(bound_infinite(gradient), values, logits.detach())
        check_magnitudes(torch.stack(magnitudes).tolist())
        return average.result()

    def gradient_of_active(
        self, at: Tensor, index: Tensor, attack_loss: AttackLoss, *, target: Tensor | None = None, eot: int = 1
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Split the rows of `at` into broken ones and active ones, and differentiate at the latter.

        Returns the rows (n - m,) of `at` that fool the model, the rows (m,) that do not, and of these the gradient
        (m, ...) and the losses (m,). On a fused copy, which gives the same logits each time, a few active examples
        are passed through the model again rather than the whole batch differentiated. The counts are what an example
        needs, whatever its batch: one forward pass, and one backward pass if it is active.
        """
        if eot > 1:
            gradient, values, logits = self.gradient(at, index, attack_loss, target=target, eot=eot)
            wrong = self.wrong(logits, index)
            self.backwards[index] -= eot * wrong
            broken, active = _split_rows(wrong, int(wrong.sum()))
            return broken, active, gradient[active], values[active]
        leaf, logits = self._forward(at, index)
        wrong = self.wrong(logits.detach(), index)
        self.forwards[index] += 1
        self.backwards[index] += ~wrong
        number = count_if_finite(wrong, logits)
        broken, active = _split_rows(wrong, number)
        if len(active) == 0:
            return broken, active, at[:0], at.new_zeros(0)
        if number and len(active) < RERUN_BELOW_SHARE * len(index) and isinstance(self.model, FusedModel):
            del leaf, logits  # frees what was stored for their backward pass
            at, index, target = at[active], index[active], None if target is None else target[active]
            leaf, logits = self._forward(at, index)
            gradient, values = self._backward(leaf, logits, index, attack_loss, target)
            return broken, active, check_gradient(gradient, logits), values
        gradient, values = self._backward(leaf, logits, index, attack_loss, target)
        gradient = check_gradient(gradient, logits)
        return (broken, active, gradient[active], values[active]) if number else (broken, active, gradient, values)

    def _check_first(self, logits: Tensor) -> Tensor:
        """Check the labels against the number of classes, and warn of probabilities, at the batch's first logits."""
        if self._labels_fit != logits.shape[1]:
            check_labels(self.y, logits.shape[1])
            if not self._labels_fit:
                warn_of_probabilities(logits, "Attacks are weaker on it")
            self._labels_fit = logits.shape[1]
        return logits

    def _forward(self, at: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Make a forward pass that can be differentiated; return the leaf to differentiate by, and the logits."""
        leaf = at.detach().requires_grad_()
        try:
            logits = self._check_first(check_logits_shape(self.model(leaf), len(index)))
        except RuntimeError as error:
            if "in-place operation" not in str(error):
                raise
            raise InputError(f"the model changes its input in place: {error}") from None
        if not logits.requires_grad:
            raise InputError(NO_GRADIENT)
        return leaf, logits

    def _backward(
        self, leaf: Tensor, logits: Tensor, index: Tensor, attack_loss: AttackLoss, target: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the gradient, not yet checked, and the losses (n,)."""
        clean = self.clean[index] if attack_loss.needs_clean else logits
        values = attack_loss.value(logits, self.y[index], clean, target)
        if values.shape != index.shape or not values.requires_grad:
            raise InputError(
                f"a loss gives one value for each example, ({len(index)},), that can be differentiated; got "
                f"{tuple(values.shape)}{'' if values.requires_grad else ' without a gradient'}"
            )
        values = -values if self.targeted else values
        return input_gradient(values.sum(), leaf), values.detach()

    def boundaries(self, at: Tensor, index: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield for each wrong class how far its logit is above the right one's, (n,), and the gradient of that.

        This needs one forward pass, and one backward pass for each of the C - 1 classes, beginning with class y + 1.
        """
        y = self.y[index]
        at, logits = self._forward(at, index)
        self.forwards[index] += 1
        for shift in range(1, logits.shape[1]):
            other = (y + shift) % logits.shape[1]
            difference = (logits.gather(1, other[:, None]) - logits.gather(1, y[:, None]))[:, 0]
            gradient = input_gradient(difference.sum(), at, retain_graph=shift + 1 < logits.shape[1])
            self.backwards[index] += 1
            yield difference.detach(), check_gradient(gradient, logits)

    def record(self, index: Tensor, adv: Tensor, fooled: Tensor | bool) -> None:
        """Record images (n, ...) of the examples at these positions, and whether they fooled the model."""
        self.found[index] = adv
        self.fooled[index] = fooled

    def confirm(self) -> None:
        """Classify each new success of a fused copy by the original model; examples that it gets right become active.

        If `verify_successes` is false, these forward passes are counted but left to the caller.
        """
        new = self.fooled & ~self._verified
        if self.verify_last and self.original is not self.model:
            self.forwards += new
            index = new.nonzero()[:, 0] if self.verify_successes else self.keys[:0]
            if len(index):
                with torch.no_grad():
                    logits = check_logits(self.original(self.found[index]), self.y[index])
                self.fooled[index] = self.wrong(logits, index)
        self._verified |= self.fooled

    def result(self, left_out: tuple[str, ...] = ()) -> AttackResult:
        return AttackResult(self.found, self.fooled, self.forwards, self.backwards, left_out)


def _split_rows(broken: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Return the rows where `broken` (n,) is true, of which there are `number`, and the other rows, both ascending."""
    order = broken.to(torch.uint8).argsort(stable=True)  # unlike nonzero, a sort does not make the host wait
    return order[len(order) - number :], order[: len(order) - number]
