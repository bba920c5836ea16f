"""State-space models, and those with some attention, are language models: filling changes none of their numbers."""

import pytest
import torch

from smelt.models.families.load import load
from smelt.tasks.language.forward import packs
from smelt.tasks.language.greedy import generate
from smelt.tasks.language.likelihoods import BatchBudget, likelihoods
from tiny_sequences import WORDS, sequence_model, write_sequence_model

END = WORDS - 1
_HYBRID = {
    "vocab_size": WORDS, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2,
    "num_key_value_heads": 1, "initializer_range": 0.3,
}  # fmt: skip
_JAMBA = {
    "num_hidden_layers": 4, "num_experts": 1, "num_experts_per_tok": 1, "attn_layer_period": 4,
    "attn_layer_offset": 2, "mamba_d_state": 4, "mamba_dt_rank": 2,
}  # fmt: skip
_BAMBA = {
    "num_hidden_layers": 2, "attn_layer_indices": [1], "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_n_groups": 1,
    "mamba_d_state": 4, "mamba_chunk_size": 8,
}  # fmt: skip


@pytest.fixture(scope="module", params=["mamba", "falcon_mamba", "mamba2", "jamba", "bamba"])
def module(request):
    import transformers

    if request.param in ("jamba", "bamba"):
        own = _JAMBA if request.param == "jamba" else _BAMBA
        torch.manual_seed(0)
        config = transformers.CONFIG_MAPPING[request.param](**_HYBRID, **own)
        return transformers.AutoModelForCausalLM.from_config(config).eval()
    return sequence_model(request.param)


def test_likelihoods_are_those_of_each_text_alone(module):
    asked = [
        ((10, 11, 12), (20, 21, 22)),
        ((10, 11, 12), (30, 31)),
        ((50,), (60, 61)),
        ((51, 52, 53, 54, 55, 56), (7,)),
    ]
    found = likelihoods(module, asked, BatchBudget(1000, 1 << 20), packed=packs(module), tell=lambda done: None)
    for (value, _), (context, continuation) in zip(found, asked, strict=True):
        with torch.inference_mode():
            logs = module(torch.tensor([context + continuation]), use_cache=False).logits[0].log_softmax(dim=-1)
        alone = sum(float(logs[len(context) - 1 + place, token]) for place, token in enumerate(continuation))
        assert value == pytest.approx(alone, abs=1e-5)


def test_prompts_of_many_lengths_are_answered_as_each_alone(module):
    prompts = [[5 + (7 * n + i) % 50 for i in range(1 + n % 6)] for n in range(8)]
    found = generate(module, prompts, 5, frozenset({END}))
    words = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": END, "pad_token_id": 0}
    for prompt, text in zip(prompts, found, strict=True):
        ids = torch.tensor([prompt])
        out = module.generate(ids, attention_mask=torch.ones_like(ids), **words)[0, len(prompt) :].tolist()
        assert text == (out[: out.index(END)] if END in out else out)


def test_a_folder_is_loaded_with_its_tied_head(tmp_path):
    model = write_sequence_model(tmp_path / "mamba", "mamba")
    loaded = load(str(tmp_path / "mamba"), "causal_lm")
    ids = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        torch.testing.assert_close(loaded.module(ids).logits, model(ids).logits)
    assert loaded.module.lm_head.weight is loaded.module.backbone.embeddings.weight
