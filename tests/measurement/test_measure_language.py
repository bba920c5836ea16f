"""Statistics of language models, against a loop over single examples by autograd."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pico_llama import pairs, write_llama
from smelt.errors import RecipeError
from smelt.measurement.fisher import fisher
from smelt.measurement.fisher_tokens import drawn_tokens
from smelt.measurement.gram import grams
from smelt.measurement.gram_rounds import TOGETHER, examples_at_once
from smelt.models.families.causal_lm.family import CausalLM
from smelt.models.families.load import load
from smelt.models.families.network import ModuleNetwork
from smelt.prepare.memory_needs import memory_needs
from smelt.tasks.examples import ArrayStream
from smelt.tasks.language.examples import LanguageExamples, encoded
from whole_grams import gram


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CausalLM:
    return load(write_llama(tmp_path_factory.mktemp("measured") / "base"), "causal_lm")


@pytest.fixture(scope="module")
def stream(model: CausalLM) -> LanguageExamples:
    return LanguageExamples("talk", "train", [encoded(model.tokenizer, *pair, chat=True) for pair in pairs(6)])


def by_hand(model: CausalLM, stream: LanguageExamples, draw: bool) -> dict[str, Tensor]:
    """One example after the other: the gradient of its whole answer's log-probability, squared."""
    module, keys = model.module, model.network().keys
    own = [module.get_parameter(key) for key in keys]
    totals = {key: torch.zeros_like(tensor, dtype=torch.float64) for key, tensor in zip(keys, own, strict=True)}
    for place in range(len(stream)):
        inputs = stream.batch([place]).inputs
        for tensor in own:
            tensor.requires_grad_(True)
        scores = module(inputs.ids).logits[0, :-1][inputs.answers[0, 1:]]
        targets = drawn_tokens(scores, place, 0, "talk") if draw else inputs.targets
        said = scores.log_softmax(dim=-1).gather(1, targets[:, None]).sum()
        for key, found in zip(keys, torch.autograd.grad(said, own), strict=True):
            totals[key] += found.double().square()
        for tensor in own:
            tensor.requires_grad_(False)
    return totals


@pytest.mark.parametrize("estimator", ["sampled", "empirical"])
def test_fisher_squares_the_gradient_of_a_whole_answer(
    model: CausalLM, stream: LanguageExamples, estimator: str
) -> None:
    found = fisher(model.network(), stream, estimator=estimator)
    wanted = by_hand(model, stream, draw=estimator == "sampled")
    assert found.keys() == wanted.keys()
    for key, tensor in found.items():
        assert tensor.dtype == torch.float64
        torch.testing.assert_close(tensor, wanted[key], rtol=1e-3, atol=1e-9)


def test_fisher_is_the_same_for_any_number_of_threads_and_shares(model: CausalLM, stream: LanguageExamples) -> None:
    one, two = (fisher(model.network(), stream, threads=threads, chunk=2) for threads in (1, 2))
    assert all(torch.equal(one[key], two[key]) for key in one)
    first, rest = (fisher(model.network(), stream, first=at, examples=n, chunk=2) for at, n in ((0, 2), (2, 4)))
    assert all(torch.equal(one[key], first[key] + rest[key]) for key in one)


def test_draws_belong_to_their_place_and_follow_the_probabilities() -> None:
    scores = torch.log(torch.tensor([0.5, 0.25, 0.25])).expand(4000, 3)
    drawn = drawn_tokens(scores, 3, 0, "talk")
    assert torch.equal(drawn, drawn_tokens(scores, 3, 0, "talk"))
    assert not torch.equal(drawn, drawn_tokens(scores, 4, 0, "talk"))
    shares = torch.bincount(drawn, minlength=3) / 4000
    torch.testing.assert_close(shares, torch.tensor([0.5, 0.25, 0.25]), atol=0.03, rtol=0)


def test_an_exact_fisher_of_texts_is_refused_with_the_reason(model: CausalLM, stream: LanguageExamples) -> None:
    with pytest.raises(RecipeError, match="every token of an answer has 100 of them; use `sampled`"):
        fisher(model.network(), stream, estimator="exact")


def test_fisher_is_sampled_unless_something_else_is_asked_for(model: CausalLM, stream: LanguageExamples) -> None:
    default, sampled = fisher(model.network(), stream), fisher(model.network(), stream, estimator="sampled")
    assert all(torch.equal(default[key], sampled[key]) for key in default)


def test_a_gram_counts_every_token_and_no_filling(model: CausalLM, stream: LanguageExamples) -> None:
    found = gram(model.network(), stream, threads=1)
    key = "model.layers.1.mlp.down_proj.weight"
    seen: list[Tensor] = []
    layer = model.module.get_submodule(key.removesuffix(".weight"))
    hook = layer.register_forward_pre_hook(lambda _, given: seen.append(given[0].reshape(-1, 48)))
    with torch.no_grad():
        for place in range(len(stream)):
            model.module(stream.batch([place]).inputs.ids)
    hook.remove()
    rows = torch.cat(seen).double()
    assert len(rows) == stream.tokens
    torch.testing.assert_close(found[key], rows.T @ rows, rtol=1e-4, atol=1e-4)
    alone = gram(model.network(), stream, chunk=1)
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, alone[name], rtol=1e-4, atol=1e-4)


def test_grams_are_the_same_in_one_round_or_in_many(model: CausalLM, stream: LanguageExamples) -> None:
    at_once, one_each = (grams(model.network(), stream, memory=memory) for memory in (1 << 30, 1))
    assert (at_once.passes, one_each.passes) == (1, 8)  # two blocks of four different inputs
    assert {key: tuple(tensor.shape) for key, tensor in one_each.described.items()} == {
        key: tuple(tensor.shape) for key, tensor in at_once.items()
    }
    assert all(torch.equal(at_once[key], tensor) for key, tensor in one_each.items())
    tied = at_once.tied
    assert tied["model.layers.0.self_attn.v_proj.weight"] == "model.layers.0.self_attn.q_proj.weight"
    assert tied["model.layers.0.mlp.up_proj.weight"] == "model.layers.0.mlp.gate_proj.weight"


def test_what_a_run_needs_is_told_from_shapes_alone(model: CausalLM, stream: LanguageExamples) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in model.module.named_parameters()}
    held = sum(tensor.nbytes for tensor in fisher(model.network(), stream, estimator="empirical").values())
    needs = memory_needs(shapes, "fisher", examples=6, tokens=stream.longest)
    assert needs.bytes_weights == sum(tensor.nbytes for tensor in model.module.parameters())
    assert needs.bytes_statistics == held + held // 2  # a chunk's in float32 beside the sums in float64
    found = grams(model.network(), stream)
    needs = memory_needs(shapes, "regmean", examples=6, tokens=stream.longest)
    assert needs.bytes_statistics == sum(tensor.nbytes for tensor in found.values())
    assert needs.passes == 1
    tight = memory_needs(shapes, "regmean", examples=6, tokens=stream.longest, memory=1)
    assert tight.passes == grams(model.network(), stream, memory=1).passes == 8
    assert needs.total == needs.bytes_weights + needs.bytes_statistics + needs.bytes_work


def test_all_chunks_that_are_kept_fit_together() -> None:
    numbers = 8_000_000  # of one example: 32 MB
    for device, memory in (("cpu", 512 << 20), ("cuda", 2 << 30)):
        chunk = examples_at_once(numbers, device)
        assert TOGETHER * chunk * 4 * numbers <= memory < 2 * TOGETHER * chunk * 4 * numbers
    assert (examples_at_once(1, "cpu"), examples_at_once(10**12, "cpu")) == (32, 1)


def test_what_is_kept_of_the_inputs_is_counted_with_the_chunks_that_are_made() -> None:
    shapes = {"model.layers.0.mlp.up_proj.weight": (8, 1024)}
    here, there = (
        memory_needs(shapes, "regmean", examples=9, tokens=4096, device=device).bytes_work for device in ("cpu", "cuda")
    )
    # an example is 4096 x 1024 numbers, 16 MB: 8 of them in each of four chunks are 512 MB, 32 of them 2 GB
    assert there - here == (2 << 30) - (512 << 20)


def test_a_large_model_is_planned_for_on_one_gpu() -> None:
    needs = {method: memory_needs(llama_8b(), method, examples=1000, tokens=512) for method in ("fisher", "regmean")}
    assert all(one.device < 80e9 for one in needs.values())
    assert needs["regmean"].passes == 8
    assert needs["regmean"].bytes_statistics < 8.6e9
    assert "where the model computes" in needs["fisher"].note


def llama_8b() -> dict[str, tuple[int, ...]]:
    shapes = {"model.embed_tokens.weight": (128256, 4096), "lm_head.weight": (128256, 4096)}
    for layer in range(32):
        block = f"model.layers.{layer}"
        for name, rows in (("q", 4096), ("k", 1024), ("v", 1024), ("o", 4096)):
            shapes[f"{block}.self_attn.{name}_proj.weight"] = (rows, 4096)
        for name in ("gate", "up"):
            shapes[f"{block}.mlp.{name}_proj.weight"] = (14336, 4096)
        shapes[f"{block}.mlp.down_proj.weight"] = (4096, 14336)
        shapes[f"{block}.input_layernorm.weight"] = shapes[f"{block}.post_attention_layernorm.weight"] = (4096,)
    return {**shapes, "model.norm.weight": (4096,)}


def test_gram_matrices_are_measured_at_the_layers_of_gpt2() -> None:
    """Their weights are [in, out]: a Gram matrix is as wide as the first side. c_attn gets ln_1 of the embeddings."""
    import transformers

    words = {"n_embd": 12, "n_layer": 1, "n_head": 2, "vocab_size": 30, "n_positions": 8}
    torch.manual_seed(0)
    module = transformers.GPT2Model(transformers.GPT2Config(**words, bos_token_id=0, eos_token_id=0)).eval()
    network = ModuleNetwork(_Answers(module))
    inputs = torch.randint(30, (5, 6), generator=torch.Generator().manual_seed(0))
    found = gram(network, ArrayStream("words", inputs, torch.zeros(5, dtype=torch.long)), chunk=2)
    widths = {key.split("module.h.0.")[1]: tuple(tensor.shape) for key, tensor in found.items()}
    assert widths == {
        "attn.c_attn.weight": (12, 12),
        "attn.c_proj.weight": (12, 12),
        "mlp.c_fc.weight": (12, 12),
        "mlp.c_proj.weight": (48, 48),
    }
    with torch.no_grad():
        x = module.h[0].ln_1(module.wte(inputs) + module.wpe(torch.arange(6))).reshape(-1, 12).double()
    torch.testing.assert_close(found["module.h.0.attn.c_attn.weight"], x.mT @ x, rtol=1e-5, atol=1e-5)


class _Answers(torch.nn.Module):
    """A bare GPT-2 that answers with numbers, as a classifier does."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, ids: Tensor) -> Tensor:
        return self.module(ids).last_hidden_state[:, -1]
