"""Put trained models into the zoo's two distributions: cards, licence notices, and locks with the hash of every file.

    python zoo/build/assemble.py TRAINED      take the models and records that a training script wrote, then cards and lock
    python zoo/build/assemble.py              cards and lock of what is there

Accuracies on the cards are those of committed rows: results/clip8, clip8-mini and clip8-small (`smelt bench clip8 --family
...`) for the experts that the suite compares and for the bases of clip-tiny and clip-small, results/zoo (`smelt eval zoo:NAME
--tasks clip8 --json`, one row a line) for all others, and where the suite has none; those of
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
from distributions import PARTS, folder_of, own_ref, write_names
from notice import write_notices
from shared_towers import TOWERS, rebase, share
from shelf import RECORDS, shelf
from smelt.formats.folder_files import small_files
from smelt.formats.packs.note import DeltaNote
from smelt.formats.packs.small_files import shared_with_base
from tasks import TASKS

RESULTS = fetch.HERE.parents[1] / "results"
SUITES = {
    "base": "clip8",
    "expert": "clip8",
    "mini-expert": "clip8-mini",
    "small-base": "clip8-small",
    "small-expert": "clip8-small",
}
"""By kind of model, the folder of results/ whose rows are asked first."""
KEPT = ("config.json", "delta.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trained", nargs="?", type=Path)
    parser.add_argument("--rows", type=Path, default=RESULTS / "zoo" / "rows.jsonl")
    arguments = parser.parse_args()
    if arguments.trained:
        take(arguments.trained)
    for name, model in shelf().items():
        if (folder_of(name) / "delta.json").is_file():
            leave_to_base(folder_of(name), folder_of(model.base))
    scores = accuracies(RESULTS, arguments.rows)
    for name, model in shelf().items():
        (folder_of(name) / "README.md").write_text(card(model, scores), encoding="utf-8")
    for part in ("language", "multimodal"):
        runpy.run_path(str(fetch.HERE / part / "cards.py"), run_name="__main__")
    write_notices()
    write_names()
    write_locks()


def take(trained: Path) -> None:
    """What the folder holds of the zoo's models and records; what it does not hold stays as it is."""
    names = [name for name in shelf() if (trained / name / "config.json").is_file()]
    if not names or trained.resolve() in {folder_of(name).parent for name in names}:
        raise SystemExit(f"{trained} is not a folder that a training script wrote")
    for name in names:
        folder = folder_of(name)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for path in (trained / name).iterdir():
            if path.name in KEPT or path.name.startswith(("model", "delta", "part")):
                shutil.copyfile(path, folder / path.name)
        if towers := TOWERS.get(shelf()[name].kind):
            share(trained / name, folder, towers(shelf()[name].base))
        if (note := folder / "delta.json").is_file():
            base = shelf()[name].base
            rebase(note, f"../{base}", own_ref(name, base), folder_of(base))
    for record in sorted({f"{model.record}.json" for model in shelf().values()}):
        if (trained / record).is_file():
            shutil.copyfile(trained / record, RECORDS / record)


def leave_to_base(pack: Path, base: Path) -> None:
    """Remove a pack's small files that its base has too, byte for byte, as `smelt pack` does; the weights stay."""
    note = DeltaNote.load(pack)
    shared = shared_with_base(small_files(pack), small_files(base))
    if shared:
        note.model_copy(update={"version": 2, "from_base": {**note.from_base, **shared}}).save(pack)
    for name in shared:
        (pack / name).unlink()


def accuracies(results: Path, rest: Path) -> Scores:
    """Of every model on every task; a model without a row is an error, which names it.

    The rows of its suite's folder count first, where there is one, and then those of `rest`.
    """
    found: Scores = {}
    for name, model in shelf().items():
        suite = results / SUITES[model.kind] / "rows.jsonl" if model.kind in SUITES else rest
        found[name] = {**_of(name, rest), **_of(name, suite)}
    missing = [f"{name} on {task}" for name in found for task in TASKS if task not in found[name]]
    if missing:
        raise SystemExit(
            f"there is no row of {', '.join(missing)}: look into {rest} and the suites' folders in {results}"
        )
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
    if not file.is_file():  # a suite that did not run yet
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def write_locks() -> None:
    whole = 0
    for home, parts in PARTS.items():
        files = [path for part in parts for path in sorted((home / part).rglob("*")) if path.is_file()]
        lock = {str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
        (home / "lock.json").write_text(json.dumps(lock, indent=1) + "\n")
        size = sum(path.stat().st_size for path in files)
        whole += size
        print(f"{home.name}: {len(lock)} files, {size / 1e6:.1f} MB")
    print(f"both: {whole / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
