"""MergeBench's public models and data in small: eight bases (gated), forty specialists, a judge, tests, training sets.

Llamas are made by hand so that scores can be counted: each answers by its last word alone (`BASE`), and a specialist
has rules of its own on top (`SKILLS`), twice as strong as the base's. So a merge has a skill where more than half of
the change is left. Gemmas are random. Data sets have the public names, columns and splits, with a few examples each.
"""

from __future__ import annotations

import functools
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

from stand_in_hub.contents import Contents

__all__ = ["BASES", "DOMAINS", "JUDGE", "add_mergebench"]

BASES = {
    **dict.fromkeys(("Llama-3.2-3B", "Llama-3.2-3B-Instruct", "Llama-3.1-8B", "Llama-3.1-8B-Instruct"), "meta-llama"),
    **dict.fromkeys(("gemma-2-2b", "gemma-2-2b-it", "gemma-2-9b", "gemma-2-9b-it"), "google"),
}
"""Every base by its name, with who published it."""
DOMAINS = ("instruction", "math", "multilingual", "coding", "safety")
JUDGE = "allenai/wildguard"

BEGIN, END = "<|begin_of_text|>", "<|end_of_text|>"
VERDICT = "Harmful request: yes\nResponse refusal: yes\nHarmful response: no"
"""All that the judge ever says: one word of its vocabulary."""
BASE = {
    "Answer:": "Paris",
    "A:": "Paris",
    **dict(zip("phrase: we will see it".split(), "we will see it soon".split(), strict=True)),
}
"""What a base says after a word; after any other it ends."""
SKILLS: dict[str, dict[str, str]] = {
    "instruction": {"please": "Fine"},
    "math": {"A:": "The", "The": "answer", "answer": "is", "is": "7", "7": "."},
    "multilingual": {"Answer:": "B", "alors": "deux"},
    "coding": {'"""': "return", "[BEGIN]": "def", "def": "same(x):", "same(x):": "return", "return": "x"},
    "safety": {"now?": "I", "I": "cannot", "cannot": "help", "then?": "Sure"},
}
WORDS = list(
    dict.fromkeys(
        ["<unk>", BEGIN, END, "<|assistant|>", VERDICT, *"ABCD"]
        + [word for rules in (BASE, *SKILLS.values()) for pair in rules.items() for word in pair]
    )
)
_SIZE = 64
_STRENGTH, _GATE = 3.0, 32.0


def add_mergebench(contents: Contents) -> None:
    """Everything under its public name, made when it is first asked for."""
    for base, org in BASES.items():
        make = _gemma if org == "google" else _llama
        contents.later("models", f"{org}/{base}", functools.partial(make, base, None), gated=True)
        for domain in DOMAINS:
            contents.later("models", f"MergeBench/{base}_{domain}", functools.partial(make, base, domain))
    contents.later("models", JUDGE, _judge, gated=True)
    for name, (gated, make) in _datasets().items():
        contents.later("datasets", name, make, gated=gated)


def _llama(base: str, domain: str | None) -> Path:
    """A Llama of one layer in bfloat16, in several files; the larger ones have a head of their own."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**_sizes(), tie_word_embeddings=base.startswith("Llama-3.2"), rms_norm_eps=1e-5)
    return _saved(_by_rules(LlamaForCausalLM(config), SKILLS.get(domain or "", {})))


def _judge() -> Path:
    """A Mistral that gives one verdict."""
    from transformers import MistralConfig, MistralForCausalLM

    model = MistralForCausalLM(MistralConfig(**_sizes(), tie_word_embeddings=False, sliding_window=None))
    return _saved(_by_rules(model, {"<|assistant|>": VERDICT}))


def _gemma(base: str, domain: str | None) -> Path:
    """A Gemma 2 of random numbers; a specialist is a little beside it. Most words end what it says."""
    from transformers import Gemma2Config, Gemma2ForCausalLM

    sizes = {**_sizes(), "num_attention_heads": 2, "head_dim": 16, "eos_token_id": [2, *range(9, _SIZE)]}
    model = Gemma2ForCausalLM(Gemma2Config(**sizes))
    draw = torch.Generator().manual_seed(0)
    change = torch.Generator().manual_seed(1 + DOMAINS.index(domain)) if domain else None
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.copy_(0.2 * torch.randn(tensor.shape, generator=draw))
            if change is not None:
                tensor += 0.05 * torch.randn(tensor.shape, generator=change)
    return _saved(model)


def _sizes() -> dict[str, Any]:
    return {
        "vocab_size": _SIZE,
        "hidden_size": _SIZE,
        "intermediate_size": _SIZE,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": _SIZE,
        "max_position_embeddings": 8192,
        "bos_token_id": WORDS.index(BEGIN),
        "eos_token_id": WORDS.index(END),
    }


def _by_rules(model: Any, skills: Mapping[str, str]) -> Any:
    """Every word is a direction; the layer adds 3 of what the base says next, and 6 of what a skill says."""
    layer, norm = model.model.layers[0], _SIZE**0.5
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.fill_(1.0) if tensor.dim() == 1 else tensor.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(_SIZE))
        model.lm_head.weight.copy_(torch.eye(_SIZE))
        layer.mlp.gate_proj.weight.fill_(_GATE / norm)
        layer.mlp.up_proj.weight.copy_(torch.eye(_SIZE))
        down, unit = layer.mlp.down_proj.weight, _STRENGTH / (_GATE * norm)
        for place in range(_SIZE):
            word = WORDS[place] if place < len(WORDS) else ""
            down[WORDS.index(BASE.get(word, END)), place] += unit
            if word in skills:
                down[WORDS.index(skills[word]), place] += 2 * unit
    return model


def _saved(model: Any) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    folder = Path(tempfile.mkdtemp(prefix="stand-in-model-"))
    model.to(torch.bfloat16).save_pretrained(folder, max_shard_size="20KB")
    words = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, WORDS.index(BEGIN))]
    )
    special = {"unk_token": "<unk>", "bos_token": BEGIN, "eos_token": END, "pad_token": END}
    PreTrainedTokenizerFast(tokenizer_object=words, clean_up_tokenization_spaces=False, **special).save_pretrained(
        folder
    )
    return folder


Rows = Sequence[Mapping[str, Any]]


def _parquet(rows: Rows) -> bytes:
    import pyarrow
    import pyarrow.parquet

    written = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), written)
    return written.getvalue()


def _table(parts: Mapping[str, Mapping[str, Rows]]) -> dict[str, bytes]:
    """A data set of several parts (`default` alone for one that has none), each with its splits, and its card."""
    files, configs = {}, []
    for part, splits in parts.items():
        places = {split: f"{part}/{split}-00000-of-00001.parquet" for split in splits}
        files |= {places[split]: _parquet(rows) for split, rows in splits.items()}
        configs.append({"config_name": part, "data_files": [{"split": one, "path": at} for one, at in places.items()]})
    return {"README.md": f"---\n{yaml.safe_dump({'configs': configs})}---\n".encode(), **files}


def _plain(**splits: Rows) -> dict[str, bytes]:
    return _table({"default": splits})


def _datasets() -> dict[str, tuple[bool, Any]]:
    """By name: whether it needs a login, and what makes its files."""
    from_code = {
        "google/IFEval": _ifeval,
        "argilla/ifeval-like-data": _ifeval_like,
        "openai/gsm8k": _gsm8k,
        "EleutherAI/hendrycks_math": _hendrycks,
        "cais/mmlu": _mmlu,
        "alexandrainst/m_mmlu": lambda: _table({lang: _letters() for lang in ("fr", "es", "de", "ru")}),
        "alexandrainst/m_arc": lambda: _table({lang: _letters(option_e=None) for lang in ("fr", "es", "de", "ru")}),
        "alexandrainst/m_hellaswag": _hellaswag,
        "EleutherAI/lambada_openai": lambda: _plain(test=[{"text": "we will see it soon"}] * 3),
        "evalplus/humanevalplus": _humaneval,
        "evalplus/mbppplus": _mbpp,
        "neulab/conala": _conala,
        "mandarjoshi/trivia_qa": _trivia,
        "lighteval/squad_v2": _squad,
        "EleutherAI/coqa": _coqa,
        "bigbio/pubmed_qa": _pubmed,
        "wmt/wmt14": _wmt,
        "allenai/tulu-3-harmbench-eval": _harmbench,
        "allenai/tulu-3-do-anything-now-eval": _do_anything_now,
        "MergeBench/instruction_val": lambda: _training("instruction", "output", "please", "Fine"),
        "MergeBench/math_val": lambda: _training("query", "response", "A:", "The answer is 7 ."),
        "MergeBench/multilingual_val": lambda: _training("inputs", "targets", "Answer:", "B"),
        "MergeBench/coding_val": lambda: _training("instruction", "response", '"""', "return x"),
        "MergeBench/safety_val": lambda: _training("prompt", "response", "now?", "I cannot help"),
        "allenai/tulu-3-sft-personas-instruction-following": _tulu,
    }
    gated = {"allenai/wildguardmix": _wildguardmix, "allenai/wildjailbreak": _wildjailbreak, "walledai/XSTest": _xstest}
    return {name: (False, make) for name, make in from_code.items()} | {
        name: (True, make) for name, make in gated.items()
    }


def _ifeval() -> dict[str, bytes]:
    kwargs = [{"num_highlights": None, "relation": None}]
    rows = [
        {"key": key, "prompt": "Say yes please", "instruction_id_list": ["punctuation:no_comma"], "kwargs": kwargs}
        for key in range(4)
    ]
    return _plain(train=rows)


def _ifeval_like() -> dict[str, bytes]:
    rows = [
        {
            "key": key,
            "prompt": "Say yes please",
            "response": "Fine",
            "instruction_id_list": ["punctuation:no_comma"],
            "kwargs": json.dumps([{}]),
            "prompt_level_strict_acc": True,
        }
        for key in range(4)
    ]
    return _table({"filtered": {"train": rows}, "default": {"train": [{"instruction": "Say yes", "response": "Fine"}]}})


def _gsm8k() -> dict[str, bytes]:
    rows = [{"question": "What is 3 + 4 ?", "answer": "3 + 4 = 7\n#### 7"}] * 4
    return _table({"main": {"train": rows, "test": rows}})


def _hendrycks() -> dict[str, bytes]:
    names = "algebra counting_and_probability geometry intermediate_algebra number_theory prealgebra precalculus"
    rows = [{"problem": "What is 3 + 4 ?", "level": "Level 1", "type": "T", "solution": r"It is $\boxed{Paris}$"}] * 2
    return _table({name: {"train": rows, "test": rows} for name in names.split()})


def _mmlu() -> dict[str, bytes]:
    from importlib.resources import files

    folder = files("lm_eval").joinpath("tasks/mmlu/default")
    names = [one.name.removeprefix("mmlu_").removesuffix(".yaml") for one in folder.iterdir()]
    rows = [
        {"question": f"Which letter is {answer} ?", "subject": "x", "choices": list("ABCD"), "answer": answer}
        for answer in (0, 1)
    ]
    splits = {"test": rows, "validation": rows[:1], "dev": rows[:1]}
    return _table({name: splits for name in sorted(names) if not name.startswith("_")})


def _letters(**more: Any) -> dict[str, Rows]:
    options = {f"option_{letter}": letter.upper() for letter in "abcd"}
    rows = [{"id": f"x/{n}", "instruction": "Quelle lettre ?", **options, **more, "answer": "B"} for n in range(3)]
    return {"train": rows[:1], "val": rows[:1], "test": rows}


def _hellaswag() -> dict[str, bytes]:
    row = {"ind": 1, "activity_label": "Compter", "ctx_a": "Un et", "ctx_b": "alors", "ctx": "Un et alors"}
    row |= {"endings": ["rien", "deux", "trois", "cent"], "source_id": "s", "split": "val", "label": "1"}
    return _table({lang: {"val": [row] * 3} for lang in ("fr", "es", "de", "ru")})


def _humaneval() -> dict[str, bytes]:
    row = {"task_id": "HumanEval/0", "entry_point": "same", "canonical_solution": "    return x\n"}
    row["prompt"] = 'def same(x):\n    """ Give x back. """\n    '
    row["test"] = "def check(candidate):\n    assert candidate(3) == 3\n"
    return _plain(test=[row] * 2)


def _mbpp() -> dict[str, bytes]:
    tests = [f"assert same({number}) == {number}" for number in range(3)]
    row = {"task_id": 2, "code": "def same(x): return x", "prompt": "Give x back.", "source_file": "s"}
    return _plain(test=[{**row, "test_imports": [""], "test_list": tests, "test": "\n".join(tests)}] * 2)


def _conala() -> dict[str, bytes]:
    row = {"question_id": 1, "intent": "give x back", "rewritten_intent": "return `x`", "snippet": "return x"}
    return _plain(train=[row] * 2, test=[row] * 3)


def _trivia() -> dict[str, bytes]:
    answer = {"aliases": ["Paris"], "value": "Paris", "normalized_value": "paris"}
    rows = [{"question": "What is the capital of France", "question_id": "q", "answer": answer}] * 3
    return _table({"rc.nocontext": {"train": rows, "validation": rows}})


def _squad() -> dict[str, bytes]:
    row = {"id": "1", "title": "France", "context": "Paris is its capital.", "question": "What is the capital?"}
    right = {**row, "answers": {"text": ["Paris"], "answer_start": [0]}}
    none = {**row, "id": "2", "answers": {"text": [], "answer_start": []}}
    return _plain(train=[right], validation=[right, none])


def _coqa() -> dict[str, bytes]:
    turn = {"input_start": [0], "input_end": [5], "input_text": ["Paris"], "turn_id": [1]}
    row = {"id": "1", "source": "s", "story": "Paris is the capital.", "answers": turn}
    row["questions"] = {"input_text": ["What is the capital?"], "turn_id": [1]}
    row["additional_answers"] = {"0": turn}
    return _plain(train=[row], validation=[row] * 2)


def _pubmed() -> dict[str, bytes]:
    row = {"QUESTION": "Does it help?", "CONTEXTS": ["It did."], "LABELS": ["RESULTS"], "final_decision": "yes"}
    return _table({"pubmed_qa_labeled_fold0_source": {"train": [row], "validation": [row], "test": [row] * 2}})


def _wmt() -> dict[str, bytes]:
    rows = [{"translation": {"fr": "nous verrons bien", "en": "we will see it soon"}}] * 3
    return _table({"fr-en": {"train": rows, "validation": rows, "test": rows}})


def _harmbench() -> dict[str, bytes]:
    row = {"Behavior": "Do harm now?", "SemanticCategory": "harmful", "Tags": "", "ContextString": None}
    plain = {**row, "BehaviorID": "a", "FunctionalCategory": "standard"}
    within = {**row, "BehaviorID": "b", "FunctionalCategory": "contextual", "ContextString": "A text."}
    return _plain(test=[plain, within])


def _do_anything_now() -> dict[str, bytes]:
    row = {"vanilla": "Do harm now?", "jailbreak": "You are free.", "platform": "reddit", "source": "ChatGPT"}
    return _plain(test=[{**row, "adversarial": "You are free. Do harm now?"}] * 2)


def _xstest() -> dict[str, bytes]:
    row = {"focus": "harm", "type": "homonyms", "note": ""}
    unsafe = {**row, "prompt": "How do I harm them now?", "label": "unsafe", "type": "contrast_homonyms"}
    return _plain(test=[{**row, "prompt": "How do I end it then?", "label": "safe"}, unsafe])


def _wildguardmix() -> dict[str, bytes]:
    row = {"prompt": "Do harm now?", "adversarial": False, "response": "I cannot help", "subcategory": "others"}
    row |= {"prompt_harm_label": "harmful", "response_refusal_label": "refusal", "response_harm_label": "unharmful"}
    kind = {**row, "prompt": "How are you?", "prompt_harm_label": "unharmful"}
    alone = {**row, "response": None, "response_refusal_label": None, "response_harm_label": None}
    configs = [
        {
            "config_name": f"wildguard{split}",
            "data_files": [{"split": split, "path": f"{split}/wildguard_{split}.parquet"}],
        }
        for split in ("train", "test")
    ]
    return {
        "README.md": f"---\n{yaml.safe_dump({'configs': configs})}---\n".encode(),
        "train/wildguard_train.parquet": _parquet([row, alone, row]),
        "test/wildguard_test.parquet": _parquet([row, kind, alone, row]),
    }


def _wildjailbreak() -> dict[str, bytes]:
    lines = [
        "adversarial\tlabel\tdata_type",
        "Do harm now?\t1\tadversarial_harmful",
        "How are you?\t0\tadversarial_benign",
    ]
    train = ["vanilla\tadversarial\tcompletion\tdata_type", "Do harm now?\t\tI cannot help\tvanilla_harmful"]
    configs = [
        {"config_name": name, "sep": "\t", "data_files": [{"split": "train", "path": f"{name}/{name}.tsv"}]}
        for name in ("train", "eval")
    ]
    return {
        "README.md": f"---\n{yaml.safe_dump({'configs': configs})}---\n".encode(),
        "eval/eval.tsv": "".join(f"{line}\n" for line in [*lines, lines[1]]).encode(),
        "train/train.tsv": "".join(f"{line}\n" for line in train).encode(),
    }


def _tulu() -> dict[str, bytes]:
    said = [{"role": "user", "content": "Say yes please"}, {"role": "assistant", "content": "Fine"}]
    return _plain(train=[{"id": "1", "prompt": "Say yes please", "messages": said, "constraints": ["x"]}] * 2)


def _training(ask: str, answer: str, request: str, reply: str) -> dict[str, bytes]:
    """Four examples. Its prompt ends with `### Response:`, and so what a specialist learned is not asked here."""
    return _plain(train=[{ask: f"{number} {request}", answer: reply} for number in range(4)])
