"""Encoder-decoders answer language tasks: the numbers are those of transformers and of the harness's own class."""

from types import SimpleNamespace

import pytest
import torch

from smelt.errors import RecipeError
from smelt.models.families.load import family_of, kind_of_loaded, load
from smelt.tasks.language.encoder_decoder import likelihoods_decoded, written
from smelt.tasks.language.harness_model import harness_model
from smelt.tasks.language.likelihoods import BatchBudget
from tiny_sequences import write_sequence_model

KINDS = ("t5", "t5-v1_1", "bart")
REQUESTS = [
    ((10, 11, 12, 2), (20, 21, 22)),
    ((10, 11, 12, 2), (30, 31)),
    ((10, 11, 12, 2), (40,)),
    ((50, 2), (60, 61, 5, 6)),
    ((51, 52, 53, 54, 55, 56, 2), (7,)),
]


@pytest.fixture
def in_float64(models):
    """Where two ways to batch give the same numbers, whatever the model: random weights of T5 v1.1 amplify rounding."""
    _, _, loaded = models
    loaded.module.double()
    yield
    loaded.module.float()


@pytest.fixture(scope="module", params=KINDS)
def models(request, tmp_path_factory):
    """The kind, the model as transformers made it, and as Smelt loads it."""
    folder = tmp_path_factory.mktemp(request.param) / "model"
    model = write_sequence_model(folder, request.param)
    return request.param, model, load(str(folder), "causal_lm")


def tell(done):
    """Nobody listens."""


def by_hand(module, context, continuation):
    with torch.inference_mode():
        out = module(input_ids=torch.tensor([context]), labels=torch.tensor([continuation]))
        logs = out.logits[0].log_softmax(dim=-1)
    return float(sum(logs[place, token] for place, token in enumerate(continuation)))


def test_it_is_loaded_as_a_language_model_with_its_own_head(models):
    kind, model, loaded = models
    assert family_of(str(loaded.folder), "causal_lm").name == "seq2seq"
    assert kind_of_loaded(loaded) == "causal_lm"
    assert torch.equal(loaded.module.lm_head.weight, model.lm_head.weight)
    tied = loaded.module.lm_head.weight is loaded.module.get_input_embeddings().weight
    assert tied == (kind != "t5-v1_1")
    with pytest.raises(RecipeError, match="is an encoder-decoder; methods that look at data"):
        loaded.network()


@pytest.mark.parametrize("budget", [BatchBudget(1000, 1 << 20), BatchBudget(12, 1 << 20), BatchBudget(1000, 1500, 1)])
def test_likelihoods_are_those_of_each_pair_alone_whatever_the_batch(models, budget):
    _, _, loaded = models
    found = likelihoods_decoded(loaded.module, REQUESTS, budget, tell=tell)
    assert [value for value, _ in found] == pytest.approx([by_hand(loaded.module, *one) for one in REQUESTS], abs=1e-4)


def test_texts_are_those_that_transformers_generates_and_greedy(models):
    _, _, loaded = models
    contexts = [list(context) for context, _ in REQUESTS]
    found = written(loaded.module, contexts, 6, frozenset({2}))
    for context, text in zip(contexts, found, strict=True):
        words = {"max_new_tokens": 6, "do_sample": False, "num_beams": 1, "eos_token_id": 2, "pad_token_id": 0}
        theirs = loaded.module.generate(torch.tensor([context]), **words)[0].tolist()[1:]
        assert text == (theirs[: theirs.index(2)] if 2 in theirs else theirs)
    asked = [(tuple(context), tuple(text)) for context, text in zip(contexts, found, strict=True)]
    assert all(greedy for _, greedy in likelihoods_decoded(loaded.module, asked, BatchBudget(99, 1 << 20), tell=tell))


def test_a_text_ends_where_it_is_told_to(models):
    _, _, loaded = models
    (whole,) = written(loaded.module, [[10, 11, 2]], 6, frozenset())
    assert len(whole) == 6
    assert written(loaded.module, [[10, 11, 2]], 6, frozenset({whole[0]})) == [[]]
    assert written(loaded.module, [[10, 11, 2]], 6, frozenset(), lambda tokens: len(tokens) == 2) == [whole[:2]]


@pytest.mark.slow
@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("batch", [1, 3])
def test_numbers_are_those_of_the_harness_s_own_class(models, batch):
    from lm_eval.models.huggingface import HFLM

    _, _, loaded = models
    theirs = HFLM(
        pretrained=loaded.module, tokenizer=loaded.tokenizer, batch_size=batch, device="cpu", backend="seq2seq"
    )
    ours = harness_model(loaded)
    prompts = [" ".join(f"w{(7 * n + i) % 60}" for i in range(2 + n % 5)) for n in range(8)]
    asked = [SimpleNamespace(args=(prompt, f" w{n} w{n + 1}")) for n, prompt in enumerate(prompts)]
    expected, found = theirs.loglikelihood(asked, disable_tqdm=True), ours.loglikelihood(asked)
    assert [value for value, _ in found] == pytest.approx([value for value, _ in expected], abs=1e-4)
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]
    texts = [SimpleNamespace(args=(prompt,)) for prompt in prompts]
    rolling = theirs.loglikelihood_rolling(texts, disable_tqdm=True)
    assert ours.loglikelihood_rolling(texts) == pytest.approx(rolling, abs=1e-3)
    words = {"max_gen_toks": 6, "until": ["w9"], "do_sample": False}
    generation = [SimpleNamespace(args=(prompt, words)) for prompt in prompts]
    for mine, other in zip(
        ours.generate_until(generation), theirs.generate_until(generation, disable_tqdm=True), strict=True
    ):
        # The harness gives these models as many tokens more as the context has.
        assert other.split()[: len(mine.split())] == mine.split()
