"""Run pyautoattack on the model and the examples of a file, in a separate process."""

import json
import sys

ROBUST_EXAMPLES = 4
"""Number of robust examples on which, attacked alone, the passes per example are counted."""


def main(inputs: str, outputs: str, options_json: str) -> None:
    import torch
    from pyautoattack import AutoAttack
    from safetensors.torch import load_file, save_file
    from torch import Tensor, nn

    from ctrobust import models

    class Counted(nn.Module):
        """The model, counting the images of forward and backward passes."""

        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner, self.forwards, self.backwards = inner, 0, 0

        def forward(self, x: Tensor) -> Tensor:
            self.forwards += len(x)
            logits: Tensor = self.inner(x)
            if logits.requires_grad:
                logits.register_hook(self.count)
            return logits

        def count(self, gradient: Tensor) -> None:
            self.backwards += len(gradient)

    options = json.loads(options_json)
    torch.set_num_threads(options["threads"])
    tensors = load_file(inputs)
    x, y = tensors.pop("x"), tensors.pop("y")
    inner = models.build("mnistnet", num_classes=10, in_channels=1, width=options["width"], noise="none")
    inner.load_state_dict(tensors)
    model = Counted(inner.eval())

    def attack(name: str, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the images found and the mask of robust examples."""
        alone = {} if name == "autoattack" else {"version": "custom", "attacks": [name]}
        made = AutoAttack(model, eps=options["eps"], seed=options["seed"], **alone)
        made.apgd.n_restarts = 1  # as in its standard version
        made.square.n_queries = options["queries"]
        if alone:
            made.apgd_targeted.n_iter = made.fab.n_iter = options["steps"]
            made.apgd_targeted.n_target_classes = made.fab.n_target_classes = options["targets"]
        x_adv, _ = made.run_standard_evaluation(x, y, batch_size=len(x))
        with torch.no_grad():
            return x_adv.detach(), inner(x_adv).argmax(1) == y

    found: dict[str, Tensor] = {}
    for name, count in options["counts"].items():
        found[f"{name} x_adv"], robust = attack(name, x[:count], y[:count])
        chosen = robust.nonzero()[:ROBUST_EXAMPLES, 0]
        while len(chosen):
            model.forwards = model.backwards = 0
            _, robust = attack(name, x[chosen], y[chosen])
            if robust.all():  # other draws broke some of the examples, which then cost fewer passes
                break
            chosen = chosen[robust]
        found[f"{name} passes"] = torch.tensor([model.forwards, model.backwards]) // max(len(chosen), 1)
    save_file({name: tensor.contiguous() for name, tensor in found.items()}, outputs)


if __name__ == "__main__":
    main(*sys.argv[1:])
