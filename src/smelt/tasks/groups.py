"""Lists of tasks that have a name.

`mergebench` is what Table 3 of MergeBench (arXiv:2505.10833) tests, and its tests of forgetting, by the names of the
harness. Not in the harness, and so not in the group: WildGuardTest, HarmBench, DoAnythingNow and XSTest, whose answers
are judged by models of their own. Left out: SQuADv2 and WMT 2014, whose scores are of a whole corpus and no mean over
examples. The order of names is that of the table; TA8 is in the order of the task arithmetic papers. TALL14 and TALL20
are the sets of Wang et al. 2024 (arXiv:2405.07813), in FusionBench's order.
"""

from __future__ import annotations

from smelt.tasks.lmms.task import HELD_IN, HELD_OUT

__all__ = ["GROUPS", "OF_THE_ZOO"]

_TA8 = ("sun397", "stanford_cars", "resisc45", "eurosat", "svhn", "gtsrb", "mnist", "dtd")
_MORE14 = ("oxford_flowers102", "pcam", "fer2013", "oxford_iiit_pet", "stl10", "cifar100")
_MORE20 = ("cifar10", "food101", "fashion_mnist", "emnist_letters", "kmnist", "rendered_sst2")
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
    "mergebench": tuple(
        f"lm-eval:{name}"
        for name in (
            *("ifeval", "gsm8k_cot", "hendrycks_math", "m_mmlu", "arc_multilingual@acc_norm"),
            *("hellaswag_multilingual@acc_norm", "humaneval_plus", "mbpp_plus"),
            *("mmlu", "triviaqa", "coqa", "pubmedqa"),
        )
    ),
    "uqmerge": HELD_OUT,
    "uqmerge-in": HELD_IN,
}

_ZOO_GROUPS = ("clip8", "llm5", "llm5-val", "llm5-general", "mllm10", "mllm10-out", "mllm10-val")
OF_THE_ZOO = frozenset(name for group in _ZOO_GROUPS for name in GROUPS[group])
"""The tasks that the zoo brings."""
