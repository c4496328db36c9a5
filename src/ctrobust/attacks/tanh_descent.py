"""Adam in tanh space, where no step leaves the pixel box; each example has its own moments and its own count."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

SMOOTH = 0.999999
"""Black and white pixels, infinitely far in tanh space, are put this much of the way to the box's edges."""

DECAYS = (0.9, 0.999)
TINY = 1e-8


def to_tanh(x: Tensor) -> Tensor:
    """Where images are in tanh space."""
    return (2 * x).sub_(1).mul_(SMOOTH).atanh_()


def to_image(place: Tensor) -> Tensor:
    """The images (tanh w + 1) / 2, in [0, 1] for any w.

    Example:
        >>> to_image(torch.tensor([-1e9, 0.0, 1e9]))
        tensor([0.0000, 0.5000, 1.0000])
    """
    return place.tanh().add_(1).div_(2)


@dataclass
class Descent:
    """Where each example is in its descent: every field has a row for each.

    Attributes:
        start: where it begins, in tanh space.
        place: where it is.
        first, second: Adam's moments.
        count: steps made since the last beginning, (n,) int64.
    """

    start: Tensor
    place: Tensor
    first: Tensor
    second: Tensor
    count: Tensor

    @classmethod
    def begin(cls, x: Tensor) -> "Descent":
        """At the images."""
        start = to_tanh(x)
        count = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        return cls(start, start.clone(), torch.zeros_like(x), torch.zeros_like(x), count)

    def keep(self, active: Tensor) -> None:
        """Drop the others."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name)[active])

    def images(self) -> Tensor:
        """Those of the places."""
        return to_image(self.place)

    def restart(self, who: Tensor) -> None:
        """Put those of the mask back at the start, with nothing remembered."""
        self.place[who] = self.start[who]
        self.first[who] = self.second[who] = 0.0
        self.count[who] = 0

    def step(self, images: Tensor, gradient: Tensor, lr: float) -> None:
        """One step down a gradient with respect to the images at the present places, in place.

        m <- .9 m + .1 g;  v <- .999 v + .001 g^2;  w <- w - lr m' / (sqrt v' + 1e-8), m' and v' without their bias
        """
        gradient = gradient.mul_(images * (1 - images)).mul_(2)  # dx/dw = (1 - tanh^2 w) / 2 = 2 x (1 - x)
        self.count += 1
        self.first.mul_(DECAYS[0]).add_(gradient, alpha=1 - DECAYS[0])
        self.second.mul_(DECAYS[1]).addcmul_(gradient, gradient, value=1 - DECAYS[1])
        one, two = (self._bias(decay, gradient) for decay in DECAYS)
        self.place.sub_(self.first.div(one).mul_(lr).div_(self.second.div(two).sqrt_().add_(TINY)))

    def _bias(self, decay: float, like: Tensor) -> Tensor:
        """The share 1 - decay^count of a moment that has been seen, (n, 1, ...)."""
        # By a table: vectorized powers are not the same bits at every position of a batch.
        table = like.new_tensor([1 - decay**count for count in range(int(self.count.max()) + 1)])
        return table[self.count].view(-1, *[1] * (like.dim() - 1))
