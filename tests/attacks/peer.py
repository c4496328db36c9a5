"""Run torchattacks' FGSM, PGD and MI-FGSM on the tensors of a file, in a separate process."""

import sys


def main(inputs: str, outputs: str, eps: float, alpha: float, steps: int) -> None:
    from unittest.mock import patch

    import torch
    import torchattacks
    from safetensors.torch import load_file, save_file
    from torch import Tensor, nn

    tensors = load_file(inputs)
    x, y, noise = (tensors.pop(name) for name in ("x", "y", "noise"))
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(256, 10),
    ).double()  # fmt: skip
    model.load_state_dict(tensors)

    def draw(empty: Tensor, low: float, high: float) -> Tensor:
        assert (low, high) == (-eps, eps)
        return empty.copy_(noise)

    # The only random draw of PGD is x + uniform_(-eps, eps).
    with patch.object(torch.Tensor, "uniform_", draw):
        started = torchattacks.PGD(model, eps=eps, alpha=alpha, steps=steps, random_start=True)(x, y)
    sizes = {"eps": eps, "alpha": alpha, "steps": steps}
    targeted = torchattacks.PGD(model, **sizes, random_start=False)
    targeted.set_mode_targeted_by_label(quiet=True)
    found = {
        "logits": model(x).detach(),
        "fgsm": torchattacks.FGSM(model, eps=eps)(x, y),
        "bim": torchattacks.PGD(model, **sizes, random_start=False)(x, y),
        "pgd": started,
        "targeted": targeted(x, (y + 1) % 10),
        "l2": torchattacks.PGDL2(model, eps=10 * eps, alpha=10 * alpha, steps=steps, random_start=False)(x, y),
        "mifgsm": torchattacks.MIFGSM(model, **sizes)(x, y),
        "mifgsm decaying": torchattacks.MIFGSM(model, **sizes, decay=0.5)(x, y),
    }
    save_file({name: tensor.contiguous() for name, tensor in found.items()}, outputs)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
