"""Llama-shaped checkpoints to merge: a base and fine-tunes that differ from it by small noise.

In: a shape and a seed. Out: `FOLDER/base`, `FOLDER/ft1`, ...: Hugging Face folders with a config, a tiny tokenizer and
safetensors shards. Every block of every tensor has its own generator, named after its place, so the bytes depend on
the seed and the block's place alone: not on threads, nor on how the model is cut into shards.

    python benchmarks/checkpoints.py OUT [--size 0.1b|0.48b|1b|1.1b|3b|tiny] [--tiny-tensors L]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import struct
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
BLOCK = 1 << 22  # elements made at a time: small enough for many threads, large enough to hide the Python around it
MANIFEST = "checkpoints.json"


@dataclass(frozen=True)
class Spec:
    """All that decides the bytes of a set of checkpoints."""

    hidden: int = 2048
    layers: int = 8
    inter: int = 5632
    vocab: int = 32000
    heads: int = 32
    kv_heads: int = 4
    dtype: str = "bfloat16"
    fine_tunes: int = 3
    shard_bytes: int = 0  # 0: one file per model
    std: float = 0.02
    noise: float = 0.001
    seed: int = 0

    @property
    def models(self) -> list[str]:
        """Folder names, the base first."""
        return ["base", *(f"ft{i + 1}" for i in range(self.fine_tunes))]

    @property
    def parameters(self) -> int:
        """Numbers in one model."""
        return sum(math.prod(shape) for _, shape in tensors(self))

    @property
    def itemsize(self) -> int:
        """Bytes of one number."""
        return torch_dtype(self.dtype).itemsize


SIZES = {
    "0.1b": Spec(hidden=768, inter=2048, heads=12),
    "0.48b": Spec(),
    "1b": Spec(layers=20),
    "1.1b": Spec(layers=22),
    "3b": Spec(hidden=3072, layers=28, inter=8192, heads=24, kv_heads=8),
    "tiny": Spec(hidden=64, layers=2, inter=128, vocab=256, heads=4, kv_heads=2),
}


def tiny_tensors(layers: int) -> Spec:
    """Many small tensors (9 per layer and 3 more): shows what a tool spends per tensor rather than per byte."""
    return Spec(hidden=16, layers=layers, inter=16, vocab=64, heads=2, kv_heads=1)


def torch_dtype(name: str) -> torch.dtype:
    """The torch dtype of a config's dtype name."""
    return {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}[name]


def tensors(spec: Spec) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of each tensor of a Llama, in the order of the network."""
    hidden, inter = spec.hidden, spec.inter
    kv = spec.kv_heads * (hidden // spec.heads)
    yield "model.embed_tokens.weight", (spec.vocab, hidden)
    for layer in range(spec.layers):
        prefix = f"model.layers.{layer}."
        yield prefix + "self_attn.q_proj.weight", (hidden, hidden)
        yield prefix + "self_attn.k_proj.weight", (kv, hidden)
        yield prefix + "self_attn.v_proj.weight", (kv, hidden)
        yield prefix + "self_attn.o_proj.weight", (hidden, hidden)
        yield prefix + "mlp.gate_proj.weight", (inter, hidden)
        yield prefix + "mlp.up_proj.weight", (inter, hidden)
        yield prefix + "mlp.down_proj.weight", (hidden, inter)
        yield prefix + "input_layernorm.weight", (hidden,)
        yield prefix + "post_attention_layernorm.weight", (hidden,)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (spec.vocab, hidden)


def ensure(folder: Path, spec: Spec) -> None:
    """Make the checkpoints unless `folder` holds a finished set of exactly this spec."""
    manifest = folder / MANIFEST
    if manifest.exists() and json.loads(manifest.read_text()) == asdict(spec):
        return
    generate(folder, spec)


def generate(folder: Path, spec: Spec) -> None:
    """Write all models; the manifest comes last, so that an interrupted run is not taken for a finished one."""
    manifest = folder / MANIFEST
    manifest.unlink(missing_ok=True)
    shards = _shards(spec)
    for model in spec.models:
        _write_folder(folder / model, spec, shards)
    with contextlib.ExitStack() as stack:
        jobs = []
        for file_name, members in shards:
            fds = [os.open(folder / model / file_name, os.O_WRONLY | os.O_CREAT, 0o644) for model in spec.models]
            for fd in fds:
                stack.callback(os.close, fd)
            jobs += _start_shard(spec, members, fds)
        workers = len(os.sched_getaffinity(0))
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # the blocks are the parallelism; nested threads would fight over the cores
        try:
            with ThreadPoolExecutor(workers) as pool:
                for _ in pool.map(lambda job: _fill_block(spec, *job), jobs):
                    pass
        finally:
            torch.set_num_threads(threads)
    manifest.write_text(json.dumps(asdict(spec), indent=2) + "\n")


Member = tuple[str, tuple[int, ...]]


def _shards(spec: Spec) -> list[tuple[str, list[Member]]]:
    groups: list[list[Member]] = [[]]
    size = 0
    for name, shape in tensors(spec):
        n_bytes = math.prod(shape) * spec.itemsize
        if spec.shard_bytes and groups[-1] and size + n_bytes > spec.shard_bytes:
            groups.append([])
            size = 0
        groups[-1].append((name, shape))
        size += n_bytes
    if len(groups) == 1:
        return [("model.safetensors", groups[0])]
    return [(f"model-{i:05d}-of-{len(groups):05d}.safetensors", group) for i, group in enumerate(groups, 1)]


def _start_shard(spec: Spec, members: list[Member], fds: list[int]) -> list[tuple[str, int, int, list[int], int]]:
    """Write the header into each model's file and list the blocks to fill: (tensor, start, stop, files, offset)."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in members:
        start, end = end, end + math.prod(shape) * spec.itemsize
        header[name] = {"dtype": DTYPES[spec.dtype], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    head = struct.pack("<Q", len(text)) + text
    for fd in fds:
        os.pwrite(fd, head, 0)
        os.ftruncate(fd, len(head) + end)
    jobs, offset = [], len(head)
    for name, shape in members:
        count = math.prod(shape)
        for start in range(0, count, BLOCK):
            jobs.append((name, start, min(start + BLOCK, count), fds, offset + start * spec.itemsize))
        offset += count * spec.itemsize
    return jobs


def _fill_block(spec: Spec, name: str, start: int, stop: int, fds: list[int], offset: int) -> None:
    is_norm = name.endswith("norm.weight")
    base = torch.ones(stop - start) if is_norm else _normal(spec, name, start, "base", stop - start).mul_(spec.std)
    base = base.to(torch_dtype(spec.dtype))
    _pwrite(fds[0], base, offset)
    base = base.float()  # a fine-tune starts from the base as stored
    for model, fd in zip(spec.models[1:], fds[1:], strict=True):
        noise = _normal(spec, name, start, model, stop - start)
        _pwrite(fd, noise.mul_(spec.noise).add_(base).to(torch_dtype(spec.dtype)), offset)


def _normal(spec: Spec, name: str, start: int, model: str, count: int) -> torch.Tensor:
    # torch's CPU generator keeps 32 bits of a seed, so the place is hashed down to them rather than added up
    seed = zlib.crc32(f"{spec.seed}/{name}/{start}/{model}".encode())
    return torch.empty(count).normal_(generator=torch.Generator().manual_seed(seed))


def _pwrite(fd: int, block: torch.Tensor, offset: int) -> None:
    view = memoryview(block.view(torch.uint8).numpy())
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written


def _write_folder(folder: Path, spec: Spec, shards: list[tuple[str, list[Member]]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.safetensors*"):
        old.unlink()
    words = {"<unk>": 0, "<s>": 1, "</s>": 2}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": spec.hidden,
        "intermediate_size": spec.inter,
        "num_hidden_layers": spec.layers,
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.kv_heads,
        "vocab_size": spec.vocab,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": spec.dtype,
        "bos_token_id": words["<s>"],
        "eos_token_id": words["</s>"],
    }
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": word, **flags} for word, i in words.items()],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": words | {f"w{i}": i for i in range(len(words), min(64, spec.vocab))},
            "unk_token": "<unk>",
        },
    }
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    files = {
        "config.json": config,
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 2048, **special},
        "special_tokens_map.json": special,
    }
    if len(shards) > 1:
        files["model.safetensors.index.json"] = {
            "metadata": {"total_size": spec.parameters * spec.itemsize},
            "weight_map": {name: file_name for file_name, members in shards for name, _ in members},
        }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    """Command line: write the models and say how long it took."""
    parser = argparse.ArgumentParser(description="Write Llama-shaped checkpoints: a base and its fine-tunes.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", choices=SIZES, default="0.48b")
    parser.add_argument("--tiny-tensors", type=int, metavar="L", help="L layers of width 16 instead: 9L + 3 tensors")
    parser.add_argument("--layers", type=int, help="another depth for the chosen size")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--shard-bytes", type=int, default=0, help="cut the models into files of this size (0: one)")
    parser.add_argument("--fine-tunes", type=int, default=3)
    parser.add_argument("--noise", type=float, default=Spec.noise, help="standard deviation of fine-tune minus base")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    spec = tiny_tensors(args.tiny_tensors) if args.tiny_tensors else SIZES[args.size]
    given = {name: getattr(args, name) for name in ("dtype", "shard_bytes", "fine_tunes", "noise", "seed")}
    spec = replace(spec, **given, **({"layers": args.layers} if args.layers else {}))
    start = time.perf_counter()
    generate(args.out, spec)
    total = spec.parameters * spec.itemsize * len(spec.models)
    print(
        f"{len(spec.models)} models of {sum(1 for _ in tensors(spec))} tensors, {spec.parameters / 1e9:.3f} B "
        f"parameters, {total / 1e9:.2f} GB in all, {time.perf_counter() - start:.1f} s: {args.out}"
    )


if __name__ == "__main__":
    main()
