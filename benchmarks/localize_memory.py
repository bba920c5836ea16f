"""The memory of trained Localize-and-Stitch on a GPU, beside what the plan says. Random weights; nothing is downloaded.

    PYTHONPATH=src python benchmarks/localize_memory.py --size llama-3.2-3b
    PYTHONPATH=src python benchmarks/localize_memory.py --size llama-3.1-8b --step-by block --steps 2

Base and model have the shapes of a public model (`smelt.models.weightless`) and are made in bfloat16 numbers, tensor by
tensor; the texts are random tokens, of which all but the first are judged (the most that scores can take). The steps,
the merge and the optimiser are those of `smelt learn`; masks are found and thrown away. Prints one JSON object:
torch.cuda.max_memory_allocated of loading, of setting up and of the steps, and the estimate.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from contextlib import nullcontext
from typing import Any

import torch
import transformers

from smelt.formats.source import Source, TensorInfo
from smelt.learning.block_passes import BlockwiseObjective
from smelt.learning.differentiable_merge import MergedObjective
from smelt.learning.localize import _Masked
from smelt.learning.localize_memory import localize_needs
from smelt.learning.one_change import OneChange
from smelt.learning.parallel_passes import Passes
from smelt.learning.task_vectors import TaskVectors
from smelt.models.families.causal_lm.network import CausalNetwork
from smelt.models.families.network import LiveWeights
from smelt.models.weightless import Size, known_sizes
from smelt.optimise.loop import optimise
from smelt.tasks.language.examples import LanguageExamples

_TINY = Size(
    family="llama",
    layers=3,
    width=64,
    inner=160,
    heads=4,
    key_value_heads=2,
    head_width=16,
    vocabulary=300,
    tied=False,
    parameters=167_872,
    names={},
)


class RandomModel(Source):
    """Numbers in bfloat16 that are a function of the tensor's name and a seed; none of them is kept."""

    def __init__(self, shapes: dict[str, tuple[int, ...]], seed: int, device: str):
        self.label, self._seed, self._device = f"random {seed}", seed, device
        self.tensors = {name: TensorInfo("BF16", shape) for name, shape in shapes.items()}
        self._place = {name: number for number, name in enumerate(shapes)}

    def made(self, key: str) -> torch.Tensor:
        """The base's numbers, and from seed 1 on a small change of them."""
        shape = self.tensors[key].shape
        draw = torch.Generator(self._device).manual_seed(self._place[key])
        spread = 0.02 if len(shape) > 1 else 0.1
        numbers = torch.randn(shape, generator=draw, device=self._device).mul_(spread)
        if len(shape) == 1:
            numbers += 1
        if self._seed:
            draw.manual_seed(1_000_000 * self._seed + self._place[key])
            numbers += torch.randn(shape, generator=draw, device=self._device).mul_(spread / 10)
        return numbers.to(torch.bfloat16)

    def read(self, key: str, start: int, out: torch.Tensor) -> None:
        out.copy_(self.made(key).view(-1)[start : start + out.numel()])


def config_of(size: Size) -> Any:
    words = {
        "hidden_size": size.width,
        "intermediate_size": size.inner,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.key_value_heads,
        "head_dim": size.head_width,
        "vocab_size": size.vocabulary,
        "tie_word_embeddings": size.tied,
        "max_position_embeddings": 4096,
    }
    return (transformers.LlamaConfig if size.family == "llama" else transformers.Gemma2Config)(**words)


def filled(size: Size, source: RandomModel, device: str) -> torch.nn.Module:
    """The base in float32, as `smelt learn` loads it: tensor by tensor, never twice."""
    with torch.device("meta"):
        module = transformers.AutoModelForCausalLM.from_config(config_of(size))
    for name, _ in list(module.named_parameters()):
        owner, _, leaf = name.rpartition(".")
        tensor = source.made(name).to(device, torch.float32)
        module.get_submodule(owner)._parameters[leaf] = torch.nn.Parameter(tensor, requires_grad=False)
    module.tie_weights()
    fresh = type(module.model.rotary_emb)(config=module.config)  # the only buffers: they have numbers of their own
    module.model.rotary_emb = fresh.to(device)
    return module.requires_grad_(False).eval()


def peak(device: str) -> int:
    """The most since it was last asked; 0 on a CPU, where torch does not count."""
    if not device.startswith("cuda"):
        return 0
    torch.cuda.synchronize(device)
    most = int(torch.cuda.max_memory_allocated(device))
    torch.cuda.reset_peak_memory_stats(device)
    return most


def main() -> None:
    sizes = {**known_sizes(), "tiny": _TINY}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(sizes), default="llama-3.2-3b")
    parser.add_argument("--step-by", choices=["model", "block"], default="block")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--masks", action="store_true", help="find the masks, too, as the end of a run does")
    asked = parser.parse_args()
    size, device, by_block = sizes[asked.size], asked.device, asked.step_by == "block"
    shapes = dict(size.shapes())
    words: Any = {"tokens": asked.tokens, "batch": asked.batch, "device": device, "steps": asked.steps}
    needs = localize_needs(shapes, step_by=asked.step_by, **words)
    began = time.perf_counter()
    network = CausalNetwork(filled(size, RandomModel(shapes, 0, device), device), device)
    found: dict[str, Any] = {"size": asked.size, **words, "step_by": asked.step_by, "load_peak": peak(device)}
    found["load_s"] = time.perf_counter() - began
    draw = torch.Generator().manual_seed(0)
    rows = [torch.randint(0, size.vocabulary, (asked.tokens,), generator=draw).tolist() for _ in range(asked.batch)]
    streams = {"a": LanguageExamples("a", "train", [(row, 1) for row in rows], device)}
    model = RandomModel(shapes, 1, device)
    base = LiveWeights(network.module, network.keys)
    with network.narrowed() if by_block else nullcontext(), Passes(network) as passes:
        began = time.perf_counter()
        change = OneChange(base, "a", model) if by_block else TaskVectors(base, {"a": model})
        merge = _Masked(change, 0.1, 1.0, by_block=by_block)
        found |= {"setup_peak": peak(device), "setup_s": time.perf_counter() - began}
        objective = (BlockwiseObjective if by_block else MergedObjective)(merge, passes, "labels")
        trace = optimise(objective, streams, steps=asked.steps, lr=0.1, batch=asked.batch)
        found |= {"steps_peak": peak(device), "step_s": [line["seconds"] for line in trace]}
        found["loss"] = [line["loss"]["a"] for line in trace]
        if asked.masks:
            began = time.perf_counter()
            kept = sum(int(mask.sum()) for mask in merge.mask().values())
            found |= {"masks_peak": peak(device), "masks_s": time.perf_counter() - began, "kept": kept}
    numbers = sum(map(math.prod, shapes.values()))
    most = max(found["load_peak"], found["setup_peak"], found["steps_peak"])
    found |= {"numbers": numbers, "estimate": needs.device, "estimate_main": needs.total - needs.device, "most": most}
    found |= {"most_over_estimate": most / needs.device, "bytes_a_number": most / numbers, "torch": torch.__version__}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
