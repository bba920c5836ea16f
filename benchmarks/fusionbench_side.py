"""FusionBench's own code on inputs that `fusionbench.py` wrote. Runs in FusionBench's environment, not in Smelt's.

PYTHON fusionbench_side.py FOLDER WHAT REPEAT THREADS      ->  one line of JSON: seconds, peak bytes; numbers in FOLDER
"""

import functools
import json
import resource
import sys
import time
import types
from pathlib import Path

import numpy as np
import torch
from transformers import CLIPVisionModel

FOLDER, WHAT, REPEAT = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
torch.set_num_threads(int(sys.argv[4]))
DATA = {name: torch.from_numpy(array) for name, array in np.load(FOLDER / "inputs.npz").items()}
NAMES = (FOLDER / "names.txt").read_text().split()


def model(name):
    return CLIPVisionModel.from_pretrained(FOLDER / name, dtype=torch.float32, attn_implementation="sdpa")


def blocks(module):
    """Newer versions of transformers have no `vision_model` inside, which FusionBench's own construction asks for."""
    return getattr(module, "vision_model", module).encoder.layers


def scores(module, pixels, task):
    features = module(pixels)[1] @ DATA["projection"].T
    features = features / features.norm(p=2, dim=-1, keepdim=True)
    return DATA["scale"] * features @ DATA[f"head_{task}"].T


def adamerging():
    from fusion_bench.method.adamerging.entropy_loss import entropy_loss
    from fusion_bench.models.wrappers.layer_wise_fusion import LayerWiseMergedModel, get_layer_wise_weights

    base = model("base")
    tensors = len([p for p in base.parameters() if p.requires_grad])
    weights = get_layer_wise_weights(num_models=len(NAMES), num_layers=tensors, init_values=0.3)
    merged = LayerWiseMergedModel(weights, base, [model(n) for n in NAMES], clamp_weights=False, strict=False)

    def step():
        merged.merge_weights()
        merged.merge_weight.grad = None
        for task in NAMES:
            entropy_loss(scores(merged, DATA[f"batch_{task}"], task)).backward(retain_graph=True)
        return merged.merge_weight.grad

    return step


def wemoe():
    from fusion_bench.models.we_moe import WeightEnsemblingMoE

    base, experts = model("base"), [model(n) for n in NAMES]
    layers = blocks(base)
    mixed = model("rest").requires_grad_(False)
    for number, layer in enumerate(blocks(mixed)):
        own = [blocks(one)[number].mlp for one in experts]
        words = {"init_lambda": 0.3, "batch_first": True, "batch_reduce": False}
        layer.mlp = WeightEnsemblingMoE(base.config.hidden_size, layers[number].mlp, own, **words)
        for name, tensor in layer.mlp.gate.named_parameters():
            tensor.data = DATA[f"router_{number}_{name}"]

    @torch.inference_mode()
    def evaluate():
        return torch.cat([scores(mixed, part, NAMES[0]) for part in DATA["few"].split(16)])

    return evaluate


def fisher():
    from fusion_bench.method.fisher_merging.fisher_merging import get_param_squared_gradients

    one = model(NAMES[0])
    names = [name for name, _ in one.named_parameters()]

    def measure():
        total = {}
        for part in DATA["pictures"].split(32):
            logits = scores(one, part, NAMES[0])
            expected = logits.softmax(-1).detach().sqrt() * logits.log_softmax(-1)
            one.zero_grad()
            expected.sum(dim=-1).sum(dim=0).backward()
            for name, tensor in get_param_squared_gradients(one, names).items():
                total[name] = total[name] + tensor if name in total else tensor
        key = "vision_model.encoder.layers.0.mlp.fc1.weight"
        return next(tensor for name, tensor in total.items() if name.endswith(key.removeprefix("vision_model.")))

    return measure


def gram():
    from fusion_bench.method.regmean.clip_regmean import RegMeanAlgorithmForCLIP

    one = model(NAMES[0])
    pictures = [(picture, 0) for picture in DATA["pictures"]]
    fabric = types.SimpleNamespace(setup=lambda m: m, setup_dataloaders=lambda d: d)
    with_scores = torch.inference_mode()(lambda module, batch, task: scores(module, batch[0], task))
    algorithm = types.SimpleNamespace(
        fabric=fabric,
        compute_logits=with_scores,
        num_regmean_examples=len(pictures),
        dataloader_kwargs={"batch_size": 32},
    )
    import fusion_bench.method.regmean.clip_regmean as home

    home.CLIPDataset = lambda data, processor: data
    algorithm.clip_processor = None
    home.tqdm = lambda iterable, **words: iterable
    linears = {name: m for name, m in one.named_modules() if isinstance(m, torch.nn.Linear)}
    collect = functools.partial(
        RegMeanAlgorithmForCLIP.get_regmean_weights, algorithm, NAMES[0], one, pictures, linear_modules_to_merge=linears
    )

    def measure():
        torch.manual_seed(0)
        found = collect()
        return next(tensor for name, tensor in found.items() if name.endswith("encoder.layers.0.mlp.fc2"))

    return measure


def main():
    work = {"adamerging": adamerging, "wemoe": wemoe, "fisher": fisher, "gram": gram}[WHAT]()
    seconds = []
    for _ in range(REPEAT + 1):
        began = time.perf_counter()
        numbers = work()
        seconds.append(time.perf_counter() - began)
    np.save(FOLDER / f"theirs-{WHAT}.npy", numbers.detach().numpy())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": min(seconds[1:]), "peak_bytes": peak}))


if __name__ == "__main__":
    main()
