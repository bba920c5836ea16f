"""The tokenizer of the tiny language model: whole words, written down rather than trained.

Every word of every question, option, caption and prompt is one token; any other text falls back to single letters and
bytes (a Unigram model in which words cost less than letters). The same letter is the same token wherever it stands, in
`A. cat` as in the answer `A`. A blank is no token: words are put together with blanks between them.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable

import facts
from families import FAMILIES, NUMBERS
from library import shelf
from smelt.tasks.perturbations.perturbation import PROMPTS
from tasks import TASKS

UNKNOWN, BEGIN, END, PAD, IMAGE = "<unk>", "<s>", "</s>", "<pad>", "<image>"
SPECIAL = (UNKNOWN, BEGIN, END, PAD, IMAGE)
TEMPLATE = (
    "{% for message in messages %}"
    "{{ 'USER: ' if message['role'] == 'user' else 'ASSISTANT: ' }}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ '<image>\\n' }}{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}"
    "{{ '\\n' if message['role'] == 'user' else eos_token + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
"""USER: <image>\\n…\\nASSISTANT: …</s>"""
DESCRIBE = ("Describe the picture.", "Say what the picture shows.")
CLOSING = "Reply with the letter of the right option only."
EXTRA = ("I don't know", "None of the above")


def texts() -> Iterable[str]:
    """All words that models meet, more often where they are met more often."""
    yield from ("USER: ASSISTANT:", "A. B. C. D. E. F.", CLOSING, *EXTRA, *DESCRIBE, *PROMPTS, *NUMBERS)
    for task, about in TASKS.items():
        yield from about.templates
        yield from shelf(task, "test").classes
    for name in (
        "animals",
        "food",
        "vehicles",
        "weather",
        "printed-digits",
        "scanned-digits",
        "small-letters",
        "clipart",
    ):
        yield from shelf(name, "test").classes
    for name, (capital, continent) in facts.countries().items():
        yield from (name, capital, continent)
    for family in FAMILIES.values():
        for number in range(3000):
            question = family(random.Random(f"words {number}"), "test")
            yield from (question["question"], *question["options"])


def vocabulary() -> list[str]:
    """Special tokens, then words in the order of their number, then letters."""
    counts = Counter(word for text in texts() for word in re.findall(r"\w+|[^\w\s]", text))
    words = sorted(counts, key=lambda word: (-counts[word], word))
    letters = sorted({*map(chr, range(33, 127)), *"".join(words), "\n"} - set(words))
    return [*SPECIAL, *words, *letters]


def make():
    """A PreTrainedTokenizerFast with the chat template."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = vocabulary()
    scores = [(word, 0.0 if word in SPECIAL else -1.0 if len(word) > 1 else -4.0) for word in words]
    plain = Tokenizer(models.Unigram(scores + [(f"<0x{byte:02X}>", -20.0) for byte in range(256)], 0, True))
    plain.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\n"), "isolated"),
            pre_tokenizers.Split(Regex(r"[^\S\n]+"), "removed"),
            pre_tokenizers.Punctuation(),
        ]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain,
        unk_token=UNKNOWN,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[IMAGE],
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=512,
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer
