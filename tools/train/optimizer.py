"""Muon for the matrices inside the layers, AdamW for the rest (embedding, norms, convolutions)."""
import torch

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5
# Gives an orthogonal update the root mean square that AdamW's updates usually have, so that both
# optimizers share one learning rate and one weight decay.
ADAMW_RMS = 0.2


def orthogonalise(matrices):
    """[...][rows][columns] -> about U V^T of each matrix's singular value decomposition."""
    a, b, c = NEWTON_SCHULZ
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).bfloat16()
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    x = x.to(matrices.dtype)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum whose step is orthogonalised, for parameters of two or more dimensions; a parameter of
    three is a stack of matrices."""

    def __init__(self, parameters, lr, weight_decay, momentum=0.95):
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                state["momentum"].lerp_(parameter.grad, 1 - group["momentum"])
                nesterov = parameter.grad.lerp(state["momentum"], group["momentum"])
                step_size = group["lr"] * ADAMW_RMS * max(parameter.shape[-2:]) ** 0.5
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.sub_(orthogonalise(nesterov), alpha=step_size)


def make_optimizers(model, kind, lr, weight_decay):
    """kind: "muon" (Muon and AdamW) or "adamw" (AdamW alone)."""
    matrices, others, undecayed = [], [], []
    for name, parameter in model.named_parameters():
        if parameter.dim() < 2:
            undecayed.append(parameter)
        elif kind == "muon" and "conv" not in name and not name.startswith("embed_tokens"):
            matrices.append(parameter)
        else:
            others.append(parameter)
    groups = [{"params": others, "weight_decay": weight_decay}, {"params": undecayed, "weight_decay": 0.0}]
    optimizers = [torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=True)]
    if matrices:
        optimizers.append(Muon(matrices, lr=lr, weight_decay=weight_decay))
    return optimizers
