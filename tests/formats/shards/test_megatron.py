"""Megatron-core's checkpoints: a Llama that was split as Megatron splits it comes out as the Llama that it was."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from transformers import LlamaConfig, LlamaForCausalLM

import smelt
from smelt.errors import CorruptFile
from smelt.formats.open import open_path
from smelt.formats.source import read_whole
from training_shards import legacy_megatron, split_llama

SIZES = {
    "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 12, "vocab_size": 20, "tie_word_embeddings": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES))


def split(llama: LlamaForCausalLM, ranks: int) -> list[dict[str, torch.Tensor]]:
    return split_llama(llama.state_dict(), layers=2, groups=2, queries=2, width=4, ranks=ranks)


def with_config(folder: Path, llama: LlamaForCausalLM) -> Path:
    llama.config.save_pretrained(folder)
    return folder


def torch_dist(folder: Path, llama: LlamaForCausalLM) -> Path:
    """As torch_dist has it: all layers of one kind in a stack."""
    (model,) = split(llama, 1)
    stacked: dict[str, Any] = {}
    for name, tensor in model.items():
        kind = name.replace("layers.0.", "layers.").replace("layers.1.", "layers.")
        stacked.setdefault(kind, []).append(tensor)
    state = {k: torch.stack(v) if k.startswith("decoder.layers") else v[0] for k, v in stacked.items()}
    extra = {"optimizer.state.exp_avg.output_layer.weight": torch.zeros(3)}
    planner = dcp.DefaultSavePlanner(flatten_state_dict=False)
    dcp.save({**state, **extra}, checkpoint_id=str(folder), no_dist=True, planner=planner)
    torch.save({"iteration": 100}, folder / "common.pt")
    (folder / "metadata.json").write_text(json.dumps({"sharded_backend": "torch_dist"}))
    return folder


def same_as(llama: LlamaForCausalLM, folder: Path) -> None:
    source, wanted = open_path(folder, allow_pickle=True), llama.state_dict()
    assert source.tensors.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(read_whole(source, name), tensor), name
        out = torch.empty(3)
        source.read(name, tensor.numel() - 5, out)
        assert torch.equal(out, tensor.reshape(-1)[-5:-2])


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("stages", [1, 2])
def test_ranks_and_stages_are_gathered_into_the_llama(
    tmp_path: Path, llama: LlamaForCausalLM, ranks: int, stages: int
) -> None:
    run = legacy_megatron(with_config(tmp_path / "run", llama), split(llama, ranks), stages=stages)
    same_as(llama, run)
    same_as(llama, run / "iter_0000100")


def test_torch_dist_is_read_without_permission(tmp_path: Path, llama: LlamaForCausalLM) -> None:
    folder = torch_dist(with_config(tmp_path / "iter_0000100", llama), llama)
    same_as(llama, folder)
    assert open_path(folder).has_bytes("model.layers.1.self_attn.k_proj.weight")


def test_without_a_config_names_stay_megatron_s_and_a_note_says_why(tmp_path: Path, llama: LlamaForCausalLM) -> None:
    source = open_path(torch_dist(tmp_path / "iter_0000100", llama))
    assert source.tensors["decoder.layers.self_attention.linear_qkv.weight"].shape == (2, 32, 16)
    assert source.tensors["embedding.word_embeddings.weight"].shape == (24, 16)
    assert "under Megatron's names: no config.json" in source.notes[0]


def test_sizes_that_do_not_fit_leave_the_names(tmp_path: Path, llama: LlamaForCausalLM) -> None:
    folder = torch_dist(with_config(tmp_path / "iter_0000100", llama), llama)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_key_value_heads": 4}))
    assert "4 groups need 48" in open_path(folder).notes[0]


def test_iterations_of_a_run_are_averaged(tmp_path: Path, llama: LlamaForCausalLM) -> None:
    run = with_config(tmp_path / "run", llama)
    for iteration in (100, 200):
        legacy_megatron(run, split(llama, 2), iteration=iteration)
    done = smelt.average(run, out=tmp_path / "out", allow_pickle=True)
    assert done[0].steps == (100, 200)
    merged = LlamaForCausalLM.from_pretrained(tmp_path / "out")
    words = torch.tensor([[1, 2, 3]])
    assert torch.equal(merged(words).logits, llama(words).logits)


def test_inspect_says_ranks_and_iteration(tmp_path: Path, llama: LlamaForCausalLM) -> None:
    facts = smelt.inspect(legacy_megatron(with_config(tmp_path / "run", llama), split(llama, 2), stages=2))
    assert facts.format == "Megatron-core checkpoint"
    assert any("2 tensor-parallel and 2 pipeline ranks, iteration 100" in note for note in facts.notes)


def _resave(path: Path, **changes: Any) -> None:
    torch.save({**torch.load(path, weights_only=False), **changes}, path)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            lambda run: (run / "mp_rank_01" / "model_optim_rng.pt").unlink(),
            "tensor-parallel rank 1, stage 0 is missing",
        ),
        (lambda run: os.truncate(run / "mp_rank_01" / "model_optim_rng.pt", 5000), "cut off"),
        (lambda run: _resave(run / "mp_rank_01" / "model_optim_rng.pt", iteration=90), "two saves are mixed"),
        (lambda run: _resave(run / "mp_rank_00" / "model_optim_rng.pt", checkpoint_version=2.0), "another order"),
        (lambda run: (run / "mp_rank_00_000_001").mkdir(), "experts lie on several ranks"),
        (lambda run: run.rename(run.with_name("iter_0000099")), "no such iteration"),
    ],
)
def test_an_iteration_that_is_not_whole_is_refused(
    tmp_path: Path, llama: LlamaForCausalLM, damage: Any, said: str
) -> None:
    run = legacy_megatron(tmp_path / "run", split(llama, 2))
    damage(run / "iter_0000100")
    with pytest.raises(CorruptFile, match=said):
        open_path(run, allow_pickle=True)


def test_a_tensor_whose_split_is_not_known_is_refused(tmp_path: Path, llama: LlamaForCausalLM) -> None:
    ranks = split(llama, 2)
    for one in ranks:
        one["decoder.layers.0.mlp.strange.weight"] = torch.zeros(2, 2)
    with pytest.raises(CorruptFile, match=r"how 'decoder.layers.0.mlp.strange.weight' is split"):
        open_path(legacy_megatron(tmp_path / "run", ranks), allow_pickle=True)


def test_it_needs_permission(tmp_path: Path, llama: LlamaForCausalLM) -> None:
    with pytest.raises(CorruptFile, match=r"pickles.*allow_pickle=True"):
        open_path(legacy_megatron(tmp_path / "run", split(llama, 1)))
