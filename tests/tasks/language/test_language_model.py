from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pico_llama import pairs, write_llama
from smelt.models.families.causal_lm.family import CausalLM
from smelt.models.families.load import load
from smelt.tasks.language.forward import packs, scores_at
from smelt.tasks.language.greedy import generate
from smelt.tasks.language.harness_model import harness_model
from smelt.tasks.language.likelihoods import BatchBudget, ContextGroup, grouped_by_context, likelihoods, packed_batch
from smelt.tasks.task import TaskError


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CausalLM:
    return load(write_llama(tmp_path_factory.mktemp("model") / "llama", seed=3), "causal_lm")


def requests(*args: Any) -> list[SimpleNamespace]:
    return [SimpleNamespace(args=one) for one in args]


def tell(done: int) -> None:
    """Nobody listens."""


def by_hand(model: Any, context: tuple[int, ...], continuation: tuple[int, ...]) -> float:
    with torch.inference_mode():
        logs = model.module(torch.tensor([context + continuation])).logits[0].log_softmax(dim=-1)
    return float(sum(logs[len(context) - 1 + i, token] for i, token in enumerate(continuation)))


QUESTIONS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((10, 11, 12), (20, 21, 22)),
    ((10, 11, 12), (30, 31)),
    ((10, 11, 12), (40,)),
    ((10, 11, 12), (20, 21, 23, 24, 25)),
    ((50,), (60, 61)),
    ((51, 52, 53, 54, 55, 56), (7,)),
]


def test_choices_of_one_question_share_a_row_and_do_not_see_each_other() -> None:
    (asked,) = grouped_by_context(QUESTIONS[:4], BatchBudget(100, 1 << 20), 100, packed=True)
    assert asked.continuations == [(40,), (30, 31), (20, 21, 22), (20, 21, 23, 24, 25)]
    made = packed_batch([asked], "cpu", torch.float32)
    assert made.inputs["input_ids"].tolist() == [[10, 11, 12, 30, 20, 21, 20, 21, 23, 24]]
    assert made.inputs["position_ids"].tolist() == [[0, 1, 2, 3, 3, 4, 3, 4, 5, 6]]
    sees = made.inputs["attention_mask"][0, 0] == 0
    assert sees[5].tolist() == [True, True, True, False, True, True, False, False, False, False]
    assert [places for _, places, _ in made.picks] == [[0], [0, 1], [0, 2, 3], [0, 4, 5, 6, 7]]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("budget", [BatchBudget(1000, 1 << 20), BatchBudget(8, 1 << 20), BatchBudget(1000, 1200, 1)])
def test_likelihoods_are_those_of_each_text_alone_whatever_the_batch(
    model: CausalLM, packed: bool, budget: BatchBudget
) -> None:
    found = likelihoods(model.module, QUESTIONS, budget, packed=packed, tell=tell)
    expected = [by_hand(model, *question) for question in QUESTIONS]
    assert [value for value, _ in found] == pytest.approx(expected, abs=1e-5)


def test_a_continuation_is_greedy_if_every_token_is_the_likeliest(model: CausalLM) -> None:
    (best,) = generate(model.module, [[10, 11, 12]], 3, frozenset())
    other = [*best[:2], (best[2] + 1) % 100]
    asked = [((10, 11, 12), tuple(best)), ((10, 11, 12), tuple(other))]
    found = likelihoods(model.module, asked, BatchBudget(100, 1 << 20), packed=True, tell=tell)
    assert [greedy for _, greedy in found] == [True, False]


def test_rows_of_one_continuation_need_no_mask_of_our_own() -> None:
    made = packed_batch(
        [ContextGroup((1, 2), [(3,), (4, 5)], [0, 1]), ContextGroup((6,), [(7, 8)], [2])], "cpu", torch.float32
    )
    assert list(made.inputs) == ["input_ids"]


def test_scores_are_made_only_where_they_are_asked_for(model: CausalLM) -> None:
    tokens = torch.tensor([[5, 6, 7], [8, 9, 10]])
    with torch.inference_mode():
        whole = model.module(tokens).logits
    found = scores_at(model.module, [0, 1, 1], [2, 0, 1], input_ids=tokens)
    torch.testing.assert_close(found, torch.stack([whole[0, 2], whole[1, 0], whole[1, 1]]))


def test_packing_is_tried_out_and_not_used_where_it_fails(model: CausalLM) -> None:
    assert packs(model.module)

    class Refuses(torch.nn.Module):
        """A model that takes no mask of ours."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = model.module

        def get_input_embeddings(self) -> Any:
            return self.inner.get_input_embeddings()

        def get_output_embeddings(self) -> Any:
            return self.inner.get_output_embeddings()

        def forward(self, input_ids: Any, use_cache: bool, **others: Any) -> Any:
            return self.inner(input_ids, use_cache=use_cache)

    assert not packs(Refuses())


def with_window(kind: str) -> Any:
    """A tiny model that sees eight tokens back in some of its layers."""
    import transformers

    words = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    words |= {"num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 64, "sliding_window": 8}
    torch.manual_seed(0)
    own = {"head_dim": 8} if kind == "Gemma2" else {}
    module = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**words, **own))
    for tensor in module.parameters():
        torch.nn.init.normal_(tensor, 0.0, 0.25)
    return module.eval()


@pytest.mark.parametrize("kind", ["Gemma2", "Mistral"])
def test_rows_beyond_a_sliding_window_hold_one_continuation_and_need_no_mask(kind: str) -> None:
    module = with_window(kind)
    long = tuple(range(10, 24))
    asked = [(long, (30, 31, 32)), (long, (40, 41)), (long, (50,)), *QUESTIONS]
    found = likelihoods(module, asked, BatchBudget(1000, 1 << 20), packed=True, tell=tell)
    expected = [by_hand(SimpleNamespace(module=module), *one) for one in asked]
    assert [value for value, _ in found] == pytest.approx(expected, abs=1e-4)


def test_choices_are_packed_as_far_as_a_window_goes() -> None:
    parts = grouped_by_context(QUESTIONS[:4], BatchBudget(100, 1 << 20), 100, packed=True, window=6)
    assert [part.continuations for part in parts] == [[(40,), (30, 31), (20, 21, 22)], [(20, 21, 23, 24, 25)]]


def test_a_model_without_such_a_cache_generates_all_the_same() -> None:
    from transformers import MambaConfig, MambaForCausalLM

    torch.manual_seed(0)
    module = MambaForCausalLM(MambaConfig(vocab_size=100, hidden_size=16, state_size=4, num_hidden_layers=2)).eval()
    prompts = [[5, 6, 7], [8, 9]]
    found = generate(module, prompts, 5, frozenset())
    words = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": 100, "pad_token_id": 0}
    assert found == [module.generate(torch.tensor([one]), **words)[0, len(one) :].tolist() for one in prompts]
    stop: Callable[[list[int]], bool] = lambda tokens: len(tokens) == 2  # noqa: E731
    assert generate(module, prompts, 5, frozenset(), stop) == [one[:2] for one in found]
    assert generate(module, prompts[:1], 5, frozenset({found[0][0]})) == [[]]


def test_an_answer_longer_than_the_model_is_refused(model: CausalLM) -> None:
    with pytest.raises(TaskError, match=r"an answer of 65 tokens is too long; .* takes at most 64"):
        harness_model(model).loglikelihood(requests(("w1", " w5" * 65)))
    ((whole, _),) = harness_model(model).loglikelihood(requests(("w1", " w5" * 64)))
    assert whole < 0


def alone(model: CausalLM, prompt: list[int], longest: int, end: int) -> list[int]:
    """What transformers itself generates."""
    words = {"max_new_tokens": longest, "do_sample": False, "pad_token_id": 2, "eos_token_id": end}
    tokens = torch.tensor([prompt])
    out = model.module.generate(tokens, attention_mask=torch.ones_like(tokens), **words)[0, len(prompt) :].tolist()
    return out[: out.index(end)] if end in out else out


def test_greedy_texts_are_those_of_transformers_whatever_goes_together(model: CausalLM) -> None:
    prompts = [[5 + (7 * n + i) % 90 for i in range(1 + n % 6)] for n in range(12)]
    end = generate(model.module, prompts, 8, frozenset())[0][3]
    expected = [alone(model, prompt, 8, end) for prompt in prompts]
    assert 8 in map(len, expected)  # some go on to the last
    assert min(map(len, expected)) < 8  # others end
    assert generate(model.module, prompts, 8, frozenset({end})) == expected
    assert [generate(model.module, [prompt], 8, frozenset({end}))[0] for prompt in prompts[:4]] == expected[:4]


def test_a_text_ends_where_it_is_told_to(model: CausalLM) -> None:
    (whole,) = generate(model.module, [[10, 11]], 6, frozenset())
    assert generate(model.module, [[10, 11]], 6, frozenset({whole[2]}))[0] == whole[: whole.index(whole[2])]
    stop: Callable[[list[int]], bool] = lambda tokens: len(tokens) == 2  # noqa: E731
    assert generate(model.module, [[10, 11]], 6, frozenset(), stop)[0] == whole[:2]


def test_a_stop_cuts_the_text_and_is_not_part_of_it(model: CausalLM) -> None:
    lm = harness_model(model)
    (whole,) = lm.generate_until(requests(("w1 w2", {"max_gen_toks": 5, "until": []})))
    words = whole.split()
    (cut,) = lm.generate_until(requests(("w1 w2", {"max_gen_toks": 5, "until": [words[2]]})))
    assert cut.split() == words[: words.index(words[2])]


def test_sampling_is_refused(model: CausalLM) -> None:
    with pytest.raises(TaskError, match="do_sample: True; language tasks are answered greedily"):
        harness_model(model).generate_until(requests(("w1", {"do_sample": True, "temperature": 0.8, "until": []})))


def test_a_prompt_that_is_too_long_is_cut_from_the_left(model: CausalLM) -> None:
    lm = harness_model(model)
    assert lm.max_length == 64
    long, short = " ".join(f"w{n % 90}" for n in range(100)), " ".join(f"w{n % 90}" for n in range(40, 100))
    generation = {"max_gen_toks": 4, "until": []}
    assert lm.generate_until(requests((long, generation))) == lm.generate_until(requests((short, generation)))
    ((cut, _),) = lm.loglikelihood(requests((long, " w5")))
    ((kept, _),) = lm.loglikelihood(requests((" ".join(f"w{n % 90}" for n in range(36, 100)), " w5")))
    assert cut == pytest.approx(kept, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 5])
def test_numbers_are_those_of_the_harness_s_own_class(model: CausalLM, batch: int) -> None:
    from lm_eval.models.huggingface import HFLM

    theirs = HFLM(pretrained=model.module, tokenizer=model.tokenizer, batch_size=batch, device="cpu")
    ours = harness_model(model)
    asked = requests(*((prompt, f" {answer}") for prompt, answer in pairs(30)), *((p, " w3 w4") for p, _ in pairs(30)))
    expected, found = theirs.loglikelihood(asked, disable_tqdm=True), ours.loglikelihood(asked)
    assert [value for value, _ in found] == pytest.approx([value for value, _ in expected], abs=1e-4)
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]
    texts = requests(*((" ".join(f"w{(n + i) % 95}" for i in range(80)),) for n in range(3)))
    rolling = theirs.loglikelihood_rolling(texts, disable_tqdm=True)
    assert ours.loglikelihood_rolling(texts) == pytest.approx(rolling, abs=1e-3)
    generation = [
        SimpleNamespace(args=(prompt, {"max_gen_toks": 10, "until": ["w9"], "do_sample": False}))
        for prompt, _ in pairs(20)
    ]
    assert ours.generate_until(generation) == theirs.generate_until(generation, disable_tqdm=True)
    chat = [{"role": "user", "content": "w1"}]
    assert ours.apply_chat_template(chat) == theirs.apply_chat_template(chat)


def test_a_window_longer_than_the_model_takes_is_scored_in_pieces(model: CausalLM) -> None:
    text = " ".join(f"w{n % 95}" for n in range(30))
    lm = harness_model(model)
    (whole,) = lm.loglikelihood_rolling(requests((text,)))
    lm.max_length = 10
    (pieces,) = lm.loglikelihood_rolling(requests((text,)))
    assert whole != pytest.approx(pieces)  # less context, other numbers, every token once
    assert pieces < 0
