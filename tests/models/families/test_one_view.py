"""Classes that see a picture in one view are loaded from any layout of names and answer as transformers does."""

import json

import numpy as np
import pytest
import torch

import smelt
from question_sets import question, write_set
from smelt.models.families.image_text.one_view import ONE_VIEW
from smelt.models.families.load import family_of, load
from smelt.prepare.evaluate import evaluate_model_or_recipe
from smelt.tasks.language.greedy import StopRule
from smelt.tasks.lmms.generate import likelihood, written
from smelt.tasks.lmms.prompts import Prompt, places_of
from smelt.tasks.questions.prompts import conversation
from smelt.testing.pico_llava import llava_tokenizer
from tiny_multimodal import CONFIGS, multimodal, save_as_transformers_4

SIDE = 16
MARKS = {"gemma3": "<start_of_image>", "internvl": "<IMG_CONTEXT>"}
PLACES = {"idefics3": 1, "smolvlm": 1}
SIZES = {"idefics3": {"size": {"longest_edge": 4 * SIDE}, "max_image_size": {"longest_edge": SIDE}}}
SIZES["smolvlm"] = SIZES["idefics3"]
EXTRA = ["<start_of_image>", "<end_of_image>", "<image_soft_token>", "<img>", "<IMG_CONTEXT>", "</img>"]
EXTRA += ["<fake_token_around_image>", "<global-img>"]
HOLDERS = {"gemma3": "<image_soft_token>", "internvl": "<IMG_CONTEXT>"}


def write(folder, kind):
    """A folder as transformers 4 wrote it, with what is needed to be asked."""
    tokenizer = llava_tokenizer(["<unk>", "<s>", "</s>", "<pad>", "<image>", *EXTRA])
    holder = tokenizer.convert_tokens_to_ids(HOLDERS.get(kind, "<image>"))
    word = "image_token_index" if kind in ("paligemma", "gemma3") else "image_token_id"
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 512}
    text |= {"sliding_window": 512} if kind == "gemma3" else {}
    model = multimodal(kind, **{word: holder, "text_config": {**CONFIGS[kind]["text_config"], **text}})
    save_as_transformers_4(model, folder)
    mark = MARKS.get(kind, "<image>")
    tokenizer.chat_template = tokenizer.chat_template.replace("<image>", mark)
    tokenizer.save_pretrained(folder)
    size = SIZES.get(kind, {"size": {"height": SIDE, "width": SIDE}})
    shown = {"do_resize": True, "resample": 3, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, **size}
    (folder / "preprocessor_config.json").write_text(json.dumps(shown))
    return model


@pytest.fixture(scope="module", params=list(ONE_VIEW))
def models(request, tmp_path_factory):
    """The kind, the folder, the model as transformers made it, and as Smelt loads it."""
    folder = tmp_path_factory.mktemp(request.param) / "model"
    model = write(folder, request.param)
    return request.param, folder, model, load(str(folder), "image_text")


@pytest.fixture(scope="module")
def picture():
    return np.random.default_rng(0).integers(0, 256, (1, SIDE, SIDE, 3)).astype(np.uint8)


def plain(kind, model, loaded, ids, picture, answer=0):
    """The library's own pass over tokens and a picture."""
    pixels = loaded.preprocess.normalise(torch.from_numpy(picture), torch.float32)
    words = {"input_ids": ids, "pixel_values": pixels[:, None] if kind in ("idefics3", "smolvlm") else pixels}
    if kind == "gemma3":
        words["token_type_ids"] = (ids == loaded.placeholder).long()
    if kind == "paligemma":
        words["token_type_ids"] = torch.tensor([[0] * (ids.shape[1] - answer) + [1] * answer])
    with torch.inference_mode():
        return model(**words, use_cache=False).logits[0].float()


def prompt_of(loaded):
    chat = conversation(loaded, [{"type": "image"}, {"type": "text", "text": "What is it?"}])
    return chat, loaded.tokenizer(chat)["input_ids"]


def test_the_scores_of_an_answer_are_those_of_a_plain_pass(models, picture):
    kind, folder, model, loaded = models
    assert family_of(str(folder)).name == "image_text"
    assert places_of(loaded) == PLACES.get(kind, 4)
    _, prompt = prompt_of(loaded)
    found = loaded.scores([prompt], loaded.features(picture))[0]
    ids = torch.tensor([loaded._spread(prompt, PLACES.get(kind, 4))])
    torch.testing.assert_close(found, plain(kind, model, loaded, ids, picture)[-1], atol=1e-5, rtol=1e-4)
    other = loaded.scores([prompt], loaded.features(255 - picture))[0]
    assert not torch.allclose(found, other)


def test_the_placeholder_stands_where_the_processor_puts_it(models):
    kind, _, _, loaded = models
    chat, prompt = prompt_of(loaded)
    assert prompt.count(loaded.placeholder) == 1
    whole = {
        "paligemma": "<image>",
        "gemma3": "\n\n<start_of_image><image_soft_token><end_of_image>\n\n",
        "internvl": "<img><IMG_CONTEXT></img>",
    }
    assert whole.get(kind, "<fake_token_around_image><global-img><image><fake_token_around_image>") in chat


def test_texts_and_their_likelihoods_are_those_of_a_plain_pass(models, picture):
    kind, _, model, loaded = models
    ids = loaded._spread(prompt_of(loaded)[1], PLACES.get(kind, 4))
    prompt = Prompt(tuple(ids), picture)
    answer = [20, 30, 40]
    logs = plain(kind, model, loaded, torch.tensor([[*ids, *answer]]), picture, 3).log_softmax(dim=-1)
    by_hand = sum(float(logs[len(ids) - 1 + place, token]) for place, token in enumerate(answer))
    assert likelihood(loaded, prompt, answer)[0] == pytest.approx(by_hand, abs=1e-4)
    (text,) = written(loaded, [(prompt, StopRule.of(3, ()))])
    tokens = list(ids)
    for own in range(3):
        tokens.append(int(plain(kind, model, loaded, torch.tensor([tokens]), picture, own)[-1].argmax()))
    assert text == loaded.tokenizer.decode(tokens[len(ids) :], skip_special_tokens=True)


def test_a_question_set_is_answered(models, tmp_path):
    _, folder, _, _ = models
    colours = write_set(tmp_path / "colours", [question(number) for number in range(6)])
    (row,) = evaluate_model_or_recipe(str(folder), colours).rows
    assert row.n == 6


def test_a_merged_model_is_asked_like_any_other(tmp_path):
    write(tmp_path / "one", "paligemma")
    write(tmp_path / "two", "paligemma")
    colours = write_set(tmp_path / "colours", [question(number) for number in range(3)])
    pool = {name: str(tmp_path / name) for name in ("one", "two")}
    smelt.merge(pool, method="average", out=tmp_path / "out")
    first, merged = (evaluate_model_or_recipe(str(tmp_path / name), colours).rows[0] for name in ("one", "out"))
    assert first.model_hash == merged.model_hash
    assert first.accuracy == merged.accuracy
