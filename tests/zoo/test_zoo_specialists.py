"""How specialists are trained and chosen: mixtures, criteria, and adapters that share a base and do not touch.

The scripts of zoo/build/language run in a process of their own, where their modules are found by plain names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

BUILD = Path(__file__).parents[2] / "zoo" / "build"


def told(code: str, folder: str = "language") -> Any:
    """What a piece of code prints as JSON, run beside the scripts."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "CODE": code}
    lines = f"import sys, json; sys.path[:0] = [{str(BUILD / folder)!r}, {str(BUILD)!r}]\n{code}"
    ran = subprocess.run([sys.executable, "-c", lines], env=env, capture_output=True, text=True)
    assert not ran.returncode, ran.stderr[-2000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_a_mixture_has_its_share_of_every_other_domain_and_goes_through_a_small_one_again() -> None:
    counts = told(
        """
from examples import DOMAINS, mixture
known = {name: [([number, place], 1) for place in range(8)] for number, name in enumerate(DOMAINS)}
found = mixture("maths", known, 0.2, 40)
alone = mixture("maths", known, 0.0, 40)
print(json.dumps([[sum(ids[0] == number for ids, _ in items) for number in range(5)] for items in (found, alone)]))
"""
    )
    assert counts == [[2, 32, 2, 2, 2], [0, 40, 0, 0, 0]]  # 8 of 40 are of the four others, and 8 examples make 40


def test_what_a_shipped_test_or_validation_task_asks_is_never_trained_on() -> None:
    left = told(
        """
import tempfile; from pathlib import Path
import examples
examples.asked_elsewhere = lambda: ({"asked"}, {"tested.module"})
examples.HELD = 0
folder = Path(tempfile.mkdtemp())
rows = [{"prompt": "asked"}, {"prompt": "new"}, {"prompt": "other", "module": "tested.module"}]
(folder / "coding.jsonl").write_text("\\n".join(map(json.dumps, rows)))
print(json.dumps([row["prompt"] for row in examples.of_domain(folder, "coding")[0]]))
"""
    )
    assert left == ["new"]


def test_the_prompts_of_all_tests_are_known() -> None:
    prompts, modules = told("import examples; print(json.dumps([len(part) for part in examples.asked_elsewhere()]))")
    assert prompts > 2_000
    assert modules > 20


JUDGED = """
from search import DOMAINS, TASKS, chosen_of, judged
limits = {"own": 0.05, "mean_own": 0.15, "others": 0.03, "worst": 0.10, "kept": 0.50}
def scores(own, average, lost=0.0):
    flat = dict.fromkeys(TASKS, 0.5)
    return {
        "base": flat,
        **{one: {task: 0.5 + own if task == f"{one}-val" else 0.5 - lost for task in TASKS} for one in DOMAINS},
        "average": dict.fromkeys(TASKS, 0.5 + average),
    }
"""


def test_a_recipe_meets_the_criteria_by_gain_by_what_it_loses_and_by_what_the_average_keeps() -> None:
    fails = told(
        JUDGED
        + """
print(json.dumps([judged(scores(*words), limits)["fails"] for words in (
    (0.2, 0.1), (0.2, 0.09), (0.1, 0.1), (0.2, 0.2, 0.04), (0.2, 0.2, 0.12), (0.02, 0.02))]))
"""
    )
    assert fails == [[], ["kept"], ["mean_own"], ["others"], ["others", "worst"], ["own", "mean_own"]]


def test_of_the_recipes_that_meet_the_criteria_the_one_that_gains_most_is_chosen() -> None:
    chosen, nobody = told(
        JUDGED
        + """
found = {"little": judged(scores(0.2, 0.1), limits), "much": judged(scores(0.3, 0.2), limits),
         "most": judged(scores(0.4, 0.1), limits)}
print(json.dumps([chosen_of(found), chosen_of({"most": found["most"]})]))
"""
    )
    assert (chosen, nobody) == ("much", None)  # `most` keeps a quarter of its gain


TINY = """
import torch, tempfile
from transformers import LlamaConfig, LlamaForCausalLM
config = LlamaConfig(vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=6, num_attention_heads=2,
                     num_key_value_heads=1, tie_word_embeddings=True)
torch.manual_seed(0)
base = LlamaForCausalLM(config)
"""


def test_adapters_that_are_trained_together_are_those_that_are_trained_alone() -> None:
    apart = told(
        TINY
        + """
import copy
from adapters_together import AdaptersTogether, ClippedApart, optimiser_of
from smelt.training.loop import train

ids = torch.randint(1, 50, (2, 3, 4, 7))  # steps, runs, rows, tokens
def learned(runs):
    model = AdaptersTogether(copy.deepcopy(base), len(runs), 2)
    with torch.no_grad():
        for place in model.places.values():  # the same beginning, whatever the place in the stack
            for at, run in enumerate(runs):
                place.down[at] = torch.sin(torch.arange(place.down[at].numel()) + 7.0 * run).view_as(place.down[at])
    def batch(step):
        rows = ids[step, runs].flatten(0, 1)
        return [{"ids": rows, "mask": torch.ones_like(rows), "wanted": torch.arange(7).expand_as(rows) > 3}]
    clipped = ClippedApart(model, most=0.01)
    train(model, batch, optimiser_of(model, "cpu"), steps=2, rate=lambda step: 0.1, hooks=clipped)
    return [[place.up[at].detach() for place in model.places.values()] for at in range(len(runs))]

whole = learned([0, 1, 2])
most = max(float((a - b).abs().max()) for run in range(3) for a, b in zip(whole[run], learned([run])[0]))
size = max(float(one.abs().max()) for one in whole[1])
print(json.dumps([most, size]))
"""
    )
    assert apart[0] < 1e-4 < 0.05 < apart[1]


def test_the_layers_that_change_least_are_left_out_and_the_rest_is_numbered_anew() -> None:
    first, layers, indices = told(
        TINY
        + """
import healed
healed.GONE = 2
with torch.no_grad():
    for layer in base.model.layers[3:5]:  # layers that add nothing
        layer.self_attn.o_proj.weight.zero_(); layer.mlp.down_proj.weight.zero_()
ids = torch.randint(1, 50, (4, 7))
first, angles = healed.least_needed(base, ids, torch.ones_like(ids))
before = base(ids).logits
short = healed.shortened(base, range(first, first + 2))
assert torch.allclose(short(ids).logits, before, atol=1e-5)  # what adds nothing is not missed
print(json.dumps([first, short.config.num_hidden_layers, [layer.self_attn.layer_idx for layer in short.model.layers]]))
"""
    )
    assert (first, layers, indices) == (3, 4, [0, 1, 2, 3])


def test_an_answer_that_contradicts_is_an_offered_letter_and_never_the_right_one() -> None:
    found = told(
        """
import pack
from dialogue import LETTERS
def question(draw, split):
    return {"picture": ["digits", "pool", 0], "question": "Which?", "options": ["one", "two"], "answer": 1}
pack.FAMILIES["yesno"] = question
made, _ = pack.wrong("yesno", {"digits": 0}, 60)
print(json.dumps(sorted({answer.strip().removesuffix("</s>") for _, answer in made})))
""",
        "multimodal",
    )
    assert found == ["A", "C", "D"]  # B is right; C and D are the two answers that every question offers
