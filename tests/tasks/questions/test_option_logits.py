"""The scores of option letters are those of a plain forward, whatever the batch, and perturbed the same for all."""

import numpy as np
import pytest
import torch

from question_sets import question, write_set
from smelt.errors import NumericalError, RecipeError
from smelt.models.families.load import load
from smelt.tasks.perturbations.perturbation import Perturbation
from smelt.tasks.questions.feature_cache import FeatureCache
from smelt.tasks.questions.option_scores import option_logits, question_subset
from smelt.tasks.questions.prompts import conversations, letter_tokens, prompt_tokens
from smelt.tasks.questions.task import QuestionTask
from smelt.testing.pico_llava import llava, save_llava

LETTERS = [261, 262, 263, 264, 265, 266]
"""Of the pico tokenizer: a space and A to F."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(str(save_llava(tmp_path_factory.mktemp("llava") / "base")), "image_text")


@pytest.fixture
def some(tmp_path):
    """Twelve questions of three widths and several lengths."""
    return question_subset(
        QuestionTask.load(write_set(tmp_path / "colours", [question(number) for number in range(12)])), "test"
    )


def test_a_part_has_widths_and_labels_and_a_smaller_one_lies_in_it(some):
    assert (some.n, some.width, some.split) == (12, 6, "test")
    assert some.widths.tolist() == [4, 5, 6] * 4
    assert some.labels.tolist() == [n % (2 + n % 3) for n in range(12)]
    five, three = (question_subset(some.task, "test", limit).samples.tolist() for limit in (5, 3))
    assert set(three) < set(five) < set(range(12))
    assert question_subset(some.task, "test", 1).width == 6  # of the split, not of the part
    with pytest.raises(RecipeError, match="limit is a number of examples, at least 1"):
        question_subset(some.task, "test", 0)


def test_a_part_with_an_unknown_answer_has_no_labels(tmp_path):
    folder = write_set(tmp_path / "set", [question(0), question(1, answer=None)])
    assert question_subset(QuestionTask.load(folder), "test").labels is None


def test_scores_are_those_of_a_plain_forward_of_transformers(model, some):
    from PIL import Image
    from transformers import AutoProcessor, LlavaForConditionalGeneration

    theirs = LlavaForConditionalGeneration.from_pretrained(model.folder)
    processor = AutoProcessor.from_pretrained(model.folder)
    found = option_logits(model, some)
    assert (found.shape, found.dtype) == ((12, 6), torch.float32)
    for number, (one, text) in enumerate(zip(some.questions, some.texts, strict=True)):
        turn = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}]
        chat = processor.apply_chat_template(turn, add_generation_prompt=True)
        assert chat == f"USER: <image>\n{text}\nASSISTANT:"
        picture = Image.open(some.task.folder / one.picture)
        with torch.no_grad():
            logits = theirs(**processor(images=picture, text=chat, return_tensors="pt")).logits[0, -1, LETTERS]
        width = some.widths[number]
        torch.testing.assert_close(found[number, :width], logits[:width], atol=2e-5, rtol=1e-4)
        assert (found[number, width:] == -torch.inf).all()


@pytest.mark.parametrize("perturbation", [None, Perturbation(passes=2)])
def test_batches_change_nothing(model, some, perturbation):
    words = {"perturbation": perturbation, "number": 1 if perturbation else 0}
    together, alone = option_logits(model, some, **words), option_logits(model, some, batch=1, **words)
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)
    part = question_subset(some.task, "test", 5)
    torch.testing.assert_close(option_logits(model, part, **words), together[part.samples], atol=1e-5, rtol=1e-4)


def test_a_perturbation_with_everything_off_is_the_plain_pass(model, some):
    """U12."""
    off = Perturbation(image=False, text=False, model=False)
    assert torch.equal(option_logits(model, some, perturbation=off, number=3), option_logits(model, some))
    none = Perturbation(image=False, text=False, dropout=0.0)
    assert torch.equal(option_logits(model, some, perturbation=none), option_logits(model, some))


@pytest.mark.parametrize("what", ["image", "text", "model"])
def test_each_kind_of_perturbation_changes_scores_and_repeats_itself(model, some, what):
    words = {"image": False, "text": False, "model": False, what: True}
    first = option_logits(model, some, perturbation=Perturbation(**words))
    assert torch.equal(first, option_logits(model, some, perturbation=Perturbation(**words)))
    assert not torch.equal(first, option_logits(model, some))
    assert not torch.equal(first, option_logits(model, some, perturbation=Perturbation(**words), number=1))
    assert not torch.equal(first, option_logits(model, some, perturbation=Perturbation(**words, seed=1)))


def test_a_prefix_is_glued_to_the_conversation_behind_the_token_that_begins_it(model):
    chats = conversations(model, ["hi"])
    assert chats == ["USER: <image>\nhi\nASSISTANT:"]
    (plain,), (glued,) = prompt_tokens(model, chats), prompt_tokens(model, chats, ["You are nice."])
    assert plain[0] == glued[0] == 1
    assert glued[1:] == model.tokenizer.encode("You are nice.", add_special_tokens=False) + plain[1:]
    written = ["<s>" + chats[0]]  # as by a template that writes the token itself
    assert prompt_tokens(model, written) == [plain]
    assert prompt_tokens(model, written, ["You are nice."]) == [glued]


def test_letters_stand_behind_a_space_or_alone_as_the_prompt_ends(model):
    assert letter_tokens(model, "ASSISTANT:") == LETTERS
    alone = [model.tokenizer.encode(letter, add_special_tokens=False)[0] for letter in "ABCDEF"]
    assert letter_tokens(model, "<|assistant|>\n") == alone


def test_a_tokenizer_without_the_letters_is_refused(model, some):
    import dataclasses

    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.WordLevel({"<unk>": 0, "A": 1, "B": 2, "C": 3, "<image>": 4}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    other = dataclasses.replace(model, tokenizer=PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="<unk>"))
    with pytest.raises(RecipeError, match="has no tokens of their own for the letters A to F"):
        option_logits(other, some)


def test_a_template_for_plain_text_is_refused(model, some):
    import dataclasses

    with pytest.raises(RecipeError, match="chat template takes no picture"):
        option_logits(dataclasses.replace(model, template="{{ messages[0]['content'] + 'x' }}"), some)
    with pytest.raises(RecipeError, match="placeholder for a picture 0 times"):
        option_logits(dataclasses.replace(model, template="{{ 'hi' }}"), some)


def test_pictures_are_looked_at_once_for_all_models_with_one_tower(model, some, monkeypatch):
    seen = []
    for one in (model, tuned := load(llava(change=0.01), "image_text", text_from=model)):
        plain = one.features
        monkeypatch.setattr(
            one, "features", lambda pictures, plain=plain: seen.append(len(pictures)) or plain(pictures)
        )
    shared = FeatureCache()
    first = option_logits(model, some, features=shared)
    assert len(shared) == 3  # three colours, whatever the questions
    looked = sum(seen)
    again = option_logits(tuned, some, features=shared)
    assert sum(seen) == looked
    torch.testing.assert_close(again, option_logits(tuned, some), atol=1e-5, rtol=1e-4)
    assert not torch.equal(first, again)


def test_a_perturbed_picture_is_not_taken_for_the_plain_one_or_for_another_pass(model, some):
    shared, perturbation = FeatureCache(), Perturbation(text=False, model=False)
    option_logits(model, some, features=shared)
    for number in (0, 1):
        words = {"perturbation": perturbation, "number": number}
        torch.testing.assert_close(
            option_logits(model, some, features=shared, **words), option_logits(model, some, **words)
        )
    assert len(shared) > 3


def test_what_was_kept_first_stays_so_that_a_second_round_finds_it(model, some, monkeypatch):
    """Room for one of three pictures: the next model looks at two. Were the oldest to go, it would look at all."""
    looked, plain = [], model.features
    monkeypatch.setattr(model, "features", lambda pictures: looked.append(len(pictures)) or plain(pictures))
    small = FeatureCache(memory=4 * 8 * 4)
    first = option_logits(model, some, batch=1, features=small)
    before = sum(looked)
    again = option_logits(model, some, batch=1, features=small)
    assert (before, sum(looked) - before) == (
        12,
        8,
    )  # each question's picture is new; then four are of the colour that is kept
    torch.testing.assert_close(again, first)


def test_known_and_new_pictures_of_one_batch_keep_their_places(model, some):
    small = FeatureCache(memory=4 * 8 * 4)
    option_logits(model, question_subset(some.task, "test", 1), features=small)
    torch.testing.assert_close(option_logits(model, some, features=small), option_logits(model, some))


def test_prompts_are_written_and_cut_once_for_models_that_do_it_alike(model, some, monkeypatch):
    from smelt.tasks.questions import prompts as rendered

    made, plain = [], rendered.prompt_tokens
    monkeypatch.setattr(rendered, "prompt_tokens", lambda *words: made.append(words) or plain(*words))
    monkeypatch.setattr(
        rendered, "conversations", lambda m, t, plain=rendered.conversations: made.append(t) or plain(m, t)
    )
    again = load(str(model.folder), "image_text")  # with a tokenizer of its own, which says the same
    assert again.tokenizer is not model.tokenizer
    first = [option_logits(one, some, perturbation=Perturbation(), number=n) for one in (model, again) for n in (0, 1)]
    assert len(made) == 3  # the conversations, and two passes
    assert torch.equal(first[0], first[2])
    assert torch.equal(first[1], first[3])
    option_logits(again, some, perturbation=Perturbation(text=False))
    option_logits(model, some)
    assert len(made) == 4  # without a prefix all passes are one
    import dataclasses

    other = dataclasses.replace(model, template="Now. " + model.template)
    assert not torch.equal(option_logits(other, some), option_logits(model, some))


def test_draws_belong_to_the_split_too(model, tmp_path):
    """The same questions in two splits are perturbed in two ways."""
    folder = write_set(tmp_path / "colours", [question(number) for number in range(12)])
    (folder / "val.jsonl.gz").write_bytes((folder / "test.jsonl.gz").read_bytes())
    task = QuestionTask.parse(
        {"name": "colours", "splits": {"test": "test.jsonl.gz", "val": "val.jsonl.gz"}}, folder=folder
    )
    test, val = (question_subset(task, split) for split in ("test", "val"))
    torch.testing.assert_close(option_logits(model, test), option_logits(model, val))
    how = Perturbation(image=False, model=False)
    assert not torch.equal(option_logits(model, test, perturbation=how), option_logits(model, val, perturbation=how))


def test_what_is_kept_is_bounded(model, some):
    small = FeatureCache(memory=4 * 8 * 4)  # of one picture: four places, eight numbers each
    found = option_logits(model, some, features=small)
    assert len(small) == 1
    torch.testing.assert_close(found, option_logits(model, some), atol=1e-5, rtol=1e-4)


def test_requests_that_cannot_be_served_are_refused(model, some):
    with pytest.raises(RecipeError, match="there is no pass 4: the perturbation has 4, counted from 0"):
        option_logits(model, some, perturbation=Perturbation(), number=4)
    with pytest.raises(RecipeError, match="batch is a number of questions, at least 1"):
        option_logits(model, some, batch=0)


def test_a_model_with_broken_numbers_is_named(some, model):
    broken = llava()
    broken.lm_head.weight.data.fill_(np.nan)
    with pytest.raises(NumericalError, match="gives NaN or infinite scores on colours"):
        option_logits(load(broken, "image_text", text_from=model), some)
