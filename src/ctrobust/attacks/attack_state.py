"""A model and a batch under attack: who still stands, what was found, how many passes it took."""

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn

from ctrobust.attacks.attack_losses import AttackLoss
from ctrobust.attacks.eot import EOTAverage
from ctrobust.attacks.fused import FusedModel
from ctrobust.attacks.model_checks import check_batch, check_logits, clean_pass, warn_of_probabilities
from ctrobust.attacks.result import AttackResult
from ctrobust.errors import InputError

RERUN_BELOW_SHARE = 0.6
"""Backward passes take half as long again as forward ones: below this share the few are run again on their own."""


NO_GRADIENT = "the model's logits cannot be differentiated by the images: does it detach them, or is it under no_grad?"


class ResumeState:
    """Where a long part of an attack writes how far it is, and reads it when taken up again. This one forgets."""

    def read(self) -> dict[str, Tensor] | None:
        """What was last written, None at the beginning."""
        return None

    def write(self, state: Callable[[], Mapping[str, Tensor]]) -> None:
        """Keep the state, or not: asked for only when it is time to keep one."""

    def report_progress(self, share: float) -> None:
        """So much of this part is done."""


class AttackState:
    """What attacks work on. Positions (n,) index the batch; every pass through the model is counted.

    Attributes:
        model: what is differentiated: the prepared copy where there is one.
        own: the user's model, which has the last word on success.
        x, y, keys: the batch: images (N, ...), labels (N,) and whose draws to make (N,).
        targeted: whether y are the classes to reach rather than the right ones.
        judge: whether the last image of an attack must be run through the model.
        found: (N, ...) the image that fooled the model, else the last tried.
        fooled: (N,) bool.
        forwards, backwards: (N,) int64.
        notebook: where a long part keeps its state.
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
        resume_state: ResumeState | None = None,
    ) -> None:
        self.model = model
        self.original = model.original if isinstance(model, FusedModel) else model
        self.keys = check_batch(x, y, keys)
        # Copies: labels of any integer type become int64, and tensors made in inference mode may be differentiated.
        self.x, self.y = x.detach().clone(), y.to(torch.int64, copy=True)
        self.targeted, self.verify_last = targeted, verify_last
        self.found = self.x.clone()
        self.fooled = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        self.forwards = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        self.backwards = torch.zeros_like(self.forwards)
        self.resume_state = resume_state or ResumeState()
        self._clean = None if clean_logits is None else check_logits(clean_logits.detach().clone(), self.y)
        self._verified = self.fooled.clone()
        self._looked_at = clean_logits is not None

    @property
    def clean_known(self) -> bool:
        """Whether the clean logits cost nothing."""
        return self._clean is not None

    @property
    def clean(self) -> Tensor:
        """The logits (N, C) of the clean images by the user's own model, one pass the first time."""
        if self._clean is None:
            self.forwards += 1
            self._clean = self._look(clean_pass(self.original, self.x, self.y))
        return self._clean

    @property
    def classes(self) -> int:
        """How many there are."""
        return self.clean.shape[1]

    def active(self) -> Tensor:
        """Positions (n,) of those not fooled."""
        return (~self.fooled).nonzero()[:, 0]

    def wrong(self, logits: Tensor, index: Tensor) -> Tensor:
        """(n,) whether logits (n, C) at these positions mean success."""
        right = logits.argmax(1) == self.y[index]
        return right if self.targeted else ~right

    def drop_misclassified(self) -> None:
        """Who is misclassified without an attack counts as fooled by its own image."""
        lost = self.wrong(self.clean, torch.arange(len(self.x), device=self.x.device))
        self.fooled |= lost
        self._verified |= lost

    def target(self, index: Tensor, rank: int) -> Tensor:
        """(n,) the wrong class of that rank, from 1, in the clean output."""
        wrong = self.clean[index].scatter(1, self.y[index, None], -torch.inf)
        return wrong.argsort(stable=True, dim=1, descending=True)[:, rank - 1]

    def forward(self, at: Tensor, index: Tensor) -> Tensor:
        """The logits (n, C) of images (n, ...) that stand at these positions."""
        self.forwards[index] += 1
        with torch.no_grad():
            return self._look(check_logits(self.model(at), self.y[index]))

    def _look(self, logits: Tensor) -> Tensor:
        """Warn once if the first logits of several images are probabilities."""
        if not self._looked_at:
            warn_of_probabilities(logits, "Attacks are weaker on it")
        self._looked_at = True
        return logits

    def gradient(
        self, at: Tensor, index: Tensor, attack_loss: AttackLoss, *, target: Tensor | None = None, eot: int = 1
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradient of the summed objectives with respect to the images alone, the objectives (n,), the logits.

        With `eot` > 1 they are those of the mean loss over so many passes, for models that draw at random, and the
        logits are their mean.
        """
        self.forwards[index] += eot
        self.backwards[index] += eot
        mean = EOTAverage(attack_loss, turned=self.targeted or target is not None)
        for _ in range(eot):
            leaf, logits = self._begun(at, index)
            gradient, values = self._ended(leaf, logits, index, attack_loss, target)
            if eot == 1:
                return gradient, values, logits.detach()
            mean.add(gradient, values, logits.detach())
        return mean.result()

    def gradient_of_active(
        self, at: Tensor, index: Tensor, attack_loss: AttackLoss, *, target: Tensor | None = None, eot: int = 1
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Who of these (n,) is not fooled at `at`, and of those alone the gradient (m, ...) and the objectives (m,).

        Once few are left, another forward pass of the few costs less than a backward pass of all: the copy, which gives
        the same each time, is asked again. What is counted is what an example needs, whoever shares its batch: a
        forward pass, and a backward pass if it stands.
        """
        if eot > 1:
            gradient, values, logits = self.gradient(at, index, attack_loss, target=target, eot=eot)
            active = ~self.wrong(logits, index)
            self.backwards[index[~active]] -= eot
            return active, gradient[active], values[active]
        leaf, logits = self._begun(at, index)
        active = ~self.wrong(logits.detach(), index)
        self.forwards[index] += 1
        self.backwards[index[active]] += 1
        left = int(active.sum())
        if left == len(index):
            return active, *self._ended(leaf, logits, index, attack_loss, target)
        if not left:
            return active, at[:0], at.new_zeros(0)
        if left >= RERUN_BELOW_SHARE * len(index) or not isinstance(self.model, FusedModel):
            gradient, values = self._ended(leaf, logits, index, attack_loss, target)
            return active, gradient[active], values[active]
        del leaf, logits  # and what was kept for their backward pass
        at, index, target = at[active], index[active], None if target is None else target[active]
        return active, *self._ended(*self._begun(at, index), index, attack_loss, target)

    def _begun(self, at: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """A forward pass that can be differentiated: what with respect to, and the logits."""
        leaf = at.detach().requires_grad_()
        try:
            logits = self._look(check_logits(self.model(leaf), self.y[index]))
        except RuntimeError as error:
            if "in-place operation" not in str(error):
                raise
            raise InputError(f"the model changes its input in place: {error}") from None
        if not logits.requires_grad:
            raise InputError(NO_GRADIENT)
        return leaf, logits

    def _ended(
        self, leaf: Tensor, logits: Tensor, index: Tensor, attack_loss: AttackLoss, target: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Its backward pass: the gradient and the objectives."""
        clean = self.clean[index] if attack_loss.needs_clean else logits
        values = attack_loss.value(logits, self.y[index], clean, target)
        if values.shape != index.shape or not values.requires_grad:
            raise InputError(
                f"a loss gives one value for each example, ({len(index)},), that can be differentiated; got "
                f"{tuple(values.shape)}{'' if values.requires_grad else ' without a gradient'}"
            )
        values = -values if self.targeted else values
        return _checked(_gradient(values.sum(), leaf)), values.detach()

    def boundaries(self, at: Tensor, index: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """For each wrong class in turn how far its logit is above the right one's, (n,), and the gradient of that.

        One forward pass, and a backward pass for each of the C - 1 classes, beginning with the one after the right one.
        """
        y = self.y[index]
        at, logits = self._begun(at, index)
        self.forwards[index] += 1
        for shift in range(1, logits.shape[1]):
            other = (y + shift) % logits.shape[1]
            difference = (logits.gather(1, other[:, None]) - logits.gather(1, y[:, None]))[:, 0]
            last = shift + 1 == logits.shape[1]
            gradient = _gradient(difference.sum(), at, again=not last)
            self.backwards[index] += 1
            yield difference.detach(), _checked(gradient)

    def record(self, index: Tensor, adv: Tensor, fooled: Tensor | bool) -> None:
        """Keep images (n, ...) of these positions as what was found, and whether they fooled the model."""
        self.found[index] = adv
        self.fooled[index] = fooled

    def confirm(self) -> None:
        """Ask the user's own model about each new success of the copy; who is not fooled there stands again."""
        new = (self.fooled & ~self._verified).nonzero()[:, 0]
        if self.verify_last and self.original is not self.model and len(new):
            self.forwards[new] += 1
            with torch.no_grad():
                logits = check_logits(self.original(self.found[new]), self.y[new])
            self.fooled[new] = self.wrong(logits, new)
        self._verified |= self.fooled

    def result(self, left_out: tuple[str, ...] = ()) -> AttackResult:
        """What became of the batch."""
        return AttackResult(self.found, self.fooled, self.forwards, self.backwards, left_out)


def _gradient(value: Tensor, leaf: Tensor, *, again: bool = False) -> Tensor:
    (gradient,) = torch.autograd.grad(value, leaf, retain_graph=again, allow_unused=True)
    if gradient is None:
        raise InputError(NO_GRADIENT)
    return gradient


def _checked(gradient: Tensor) -> Tensor:
    """Refuse NaN; what is infinite counts as much as the example's largest finite entry. It may be written to."""
    if 0 in gradient.stride():  # an expanded tensor, as a sum's gradient is
        gradient = gradient.contiguous()
    finite = gradient.isfinite()
    if finite.all():
        return gradient
    if gradient.isnan().any():
        raise InputError("the gradient with respect to the images is NaN: model or loss has none there")
    most = gradient.where(finite, 0).flatten(1).abs().amax(1)
    most = torch.where(most > 0, most, 1.0).view(-1, *[1] * (gradient.dim() - 1))
    return gradient.where(finite, gradient.sign() * most)
