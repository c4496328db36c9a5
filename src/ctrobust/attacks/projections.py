"""Steps and projections in the norms of the attacks, the pixel box included."""

from torch import Tensor


def linf_bounds(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The corners of the eps-ball cut by the box [0, 1]: clamping to them projects on the ball, then on the box."""
    return (x - eps).clamp_(min=0.0), (x + eps).clamp_(max=1.0)
