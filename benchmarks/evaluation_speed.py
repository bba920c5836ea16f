"""How fast models are asked on a GPU: the constants of `smelt.suites.needs.duration`.

    python benchmarks/evaluation_speed.py -o results/evaluation_speed.json

Random weights at public sizes, through transformers, as Smelt's evaluations compute: a ViT-L/14 tower in float32 on
batches of 256 pictures; a decoder of 3.2 billion numbers in bfloat16 that reads prompts of 512 tokens and writes.
Prints operations a second (2 P for each token) and bytes of weights a second while one token after another is written.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from provenance import provenance
from result_file import save, say


def seconds(work: Callable[[], Any], repeats: int = 5) -> float:
    """The median over some runs after one that is not counted."""
    work()
    taken = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def pictures(batch: int = 256) -> dict[str, float]:
    """A ViT-L/14 tower."""
    from transformers import CLIPVisionConfig, CLIPVisionModel

    size = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
    with torch.device("cuda"):
        model = CLIPVisionModel(CLIPVisionConfig(**size, image_size=224, patch_size=14)).eval()
    numbers, tokens = sum(one.numel() for one in model.parameters()), (224 // 14) ** 2 + 1
    given = torch.randn(batch, 3, 224, 224, device="cuda")
    found = {}
    with torch.inference_mode():
        for name, kind in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
            tower, some = model.to(kind), given.to(kind)
            taken = seconds(lambda tower=tower, some=some: tower(pixel_values=some))
            found |= {f"{name}_pictures_a_second": batch / taken}
            found |= {f"{name}_operations_a_second": 2 * numbers * tokens * batch / taken}
    return found


def texts(batch: int = 32, prompt: int = 512, written: int = 64) -> dict[str, float]:
    """A decoder of Llama 3.2's size of 3 B."""
    from transformers import LlamaConfig, LlamaForCausalLM

    size = {"hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28, "num_attention_heads": 24}
    config = LlamaConfig(**size, num_key_value_heads=8, vocab_size=128256, tie_word_embeddings=True)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    numbers = sum(one.numel() for one in model.parameters())
    tokens = torch.randint(5, 1000, (batch, prompt), device="cuda")
    with torch.inference_mode():
        read = seconds(lambda: model(input_ids=tokens, logits_to_keep=1))
        words: dict[str, Any] = {"do_sample": False, "min_new_tokens": written, "max_new_tokens": written}
        wrote = seconds(lambda: model.generate(tokens, attention_mask=torch.ones_like(tokens), **words), 3)
    return {
        "numbers": numbers,
        "operations_a_second": 2 * numbers * batch * prompt / read,
        "weight_bytes_a_second": 2 * numbers * written / (wrote - read),
        "tokens_a_second": batch * written / (wrote - read),
        "batch": batch,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path)
    out = parser.parse_args().out
    found = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "pictures": pictures(),
        "texts": texts(),
    }
    say(str(found))
    save(out, {"provenance": provenance([], 0), **found})


if __name__ == "__main__":
    main()
