"""Adam in tanh space, where no step leaves the pixel box; each example has its own moments and step count."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

TANH_SCALE = 0.999999
"""Images are scaled by this factor about 0.5, because atanh of black and white pixels is infinite."""

BETAS = (0.9, 0.999)
ADAM_EPS = 1e-8


def to_tanh(x: Tensor) -> Tensor:
    """Map images in [0, 1] to tanh space: w = atanh(2 x - 1)."""
    return (2 * x).sub_(1).mul_(TANH_SCALE).atanh_()


def to_image(w: Tensor) -> Tensor:
    """Map points of tanh space to images: x = (tanh w + 1) / 2, which is in [0, 1] for any w.

    Example:
        >>> to_image(torch.tensor([-1e9, 0.0, 1e9]))
        tensor([0.0000, 0.5000, 1.0000])
    """
    return w.tanh().add_(1).div_(2)


@dataclass
class TanhAdam:
    """State of Adam in tanh space; every field has one row per example.

    Attributes:
        start: the clean images in tanh space, (n, ...).
        w: the current iterates in tanh space, (n, ...).
        first_moment, second_moment: Adam's running averages of the gradient and of its square, (n, ...).
        count: number of steps since the last restart, (n,) int64.
    """

    start: Tensor
    w: Tensor
    first_moment: Tensor
    second_moment: Tensor
    count: Tensor

    @classmethod
    def begin(cls, x: Tensor) -> "TanhAdam":
        """Start at the images x (n, ...)."""
        start = to_tanh(x)
        count = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        return cls(start, start.clone(), torch.zeros_like(x), torch.zeros_like(x), count)

    def select(self, active: Tensor) -> None:
        """Keep only the active examples; `active` is a mask (n,)."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name)[active])

    def images(self) -> Tensor:
        """Images (n, ...) of the current iterates."""
        return to_image(self.w)

    def restart(self, mask: Tensor) -> None:
        """Reset the examples of the mask (n,) to the clean image, with zero moments."""
        self.w[mask] = self.start[mask]
        self.first_moment[mask] = self.second_moment[mask] = 0.0
        self.count[mask] = 0

    def step(self, images: Tensor, gradient: Tensor, lr: float) -> None:
        """Take one Adam step, in place, given the current images and the loss gradient with respect to them.

        m <- .9 m + .1 g;  v <- .999 v + .001 g^2;  w <- w - lr m' / (sqrt v' + 1e-8), m' and v' bias-corrected
        """
        gradient = gradient.mul_(images * (1 - images)).mul_(2)  # dx/dw = (1 - tanh^2 w) / 2 = 2 x (1 - x)
        self.count += 1
        self.first_moment.mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
        self.second_moment.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        first, second = (self._bias_correction(beta, gradient) for beta in BETAS)
        self.w.sub_(self.first_moment.div(first).mul_(lr).div_(self.second_moment.div(second).sqrt_().add_(ADAM_EPS)))

    def _bias_correction(self, beta: float, like: Tensor) -> Tensor:
        """Bias correction 1 - beta^count of a moment, (n, 1, ...)."""
        # Looked up in a table: vectorized powers do not give the same bits at every position of a batch.
        table = like.new_tensor([1 - beta**count for count in range(int(self.count.max()) + 1)])
        return table[self.count].view(-1, *[1] * (like.dim() - 1))
