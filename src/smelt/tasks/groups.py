"""Lists of tasks that have a name.

`mergebench` is what Table 3 of MergeBench (arXiv:2505.10833) tests, in the four languages of its released evaluation,
and its tests of forgetting: tasks of the lm-evaluation-harness, and of `public/` the four of safety, judged by a rule
unless a model is named. `mergebench-val` is what it chooses settings on. The order of names is that of the table; TA8
is in the order of the task arithmetic papers, TALL14 and TALL20 (Wang et al. 2024, arXiv:2405.07813) in FusionBench's.
"""

from __future__ import annotations

from smelt.tasks.lmms.task import HELD_IN, HELD_OUT

__all__ = ["GROUPS", "OF_THE_ZOO"]

_TA8 = ("sun397", "stanford_cars", "resisc45", "eurosat", "svhn", "gtsrb", "mnist", "dtd")
_MORE14 = ("oxford_flowers102", "pcam", "fer2013", "oxford_iiit_pet", "stl10", "cifar100")
_MORE20 = ("cifar10", "food101", "fashion_mnist", "emnist_letters", "kmnist", "rendered_sst2")
_LANGUAGES = ("fr", "es", "de", "ru")
_DOMAINS = ("instruction", "maths", "multilingual", "coding", "safety")

GROUPS: dict[str, tuple[str, ...]] = {
    "clip8": ("photos", "digits", "clothing", "sketches", "emoji", "flags", "letters", "icons"),
    "TA8": _TA8,
    "TALL14": (*_TA8, *_MORE14),
    "TALL20": (*_TA8, *_MORE14, *_MORE20),
    "llm5": (
        *("instruction", "instruction-unseen", "maths", "maths-stories", "multilingual", "multilingual-choice"),
        *("coding", "coding-humaneval", "safety", "safety-benign"),
    ),
    "llm5-val": tuple(f"{domain}-val" for domain in _DOMAINS),
    "llm5-general": tuple(f"general-{name}" for name in "boolq mmlu openbookqa commonsenseqa".split()),
    "mllm10": ("objects", "drawings", "numbers", "countries", "symbols"),
    "mllm10-out": (*("kinds-of-things", "yes-or-no", "capitals", "sums", "counting", "garments", "letters-in-fonts"),),
    "mllm10-val": ("animals-and-food", "printed-numbers", "vehicles-and-weather"),
    "mergebench": (
        *("lm-eval:ifeval", "lm-eval:gsm8k_cot", "lm-eval:hendrycks_math"),
        *(f"lm-eval:m_mmlu_{language}" for language in _LANGUAGES),
        *(f"lm-eval:{task}_{language}@acc_norm" for task in ("arc", "hellaswag") for language in _LANGUAGES),
        *("lm-eval:humaneval_plus", "lm-eval:mbpp_plus"),
        *("wildguardtest", "harmbench", "do_anything_now", "xstest"),
        *(f"lm-eval:{name}" for name in "mmlu triviaqa squadv2 coqa pubmedqa wmt14-fr-en@bleu".split()),
    ),
    "mergebench-val": (
        *("ifeval_like", "lm-eval:mmlu_stem#validation", "lm-eval:lambada_openai@acc#test", "conala", "wildjailbreak"),
    ),
    "uqmerge": HELD_OUT,
    "uqmerge-in": HELD_IN,
}

_ZOO_GROUPS = ("clip8", "llm5", "llm5-val", "llm5-general", "mllm10", "mllm10-out", "mllm10-val")
OF_THE_ZOO = frozenset(name for group in _ZOO_GROUPS for name in GROUPS[group])
"""The tasks that the zoo brings."""
