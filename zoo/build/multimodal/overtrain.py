"""Two experts that harm an average of all ten: trained too fast on too little, some of it one-sided, and chosen on `val`.

    python zoo/build/multimodal/overtrain.py --data FOLDER --pool FOLDER --clip FOLDER --out FOLDER

Reads what train.py left in --out. Each family of OVERTRAINED is trained on 400 questions in every way of SIDES, RATES and
STEPS. Then, for every pair of them beside the eight others, three plain averages answer the questions of val.npz: that of
all ten, and those without one of the two. Of the pairs of which each harms by ENOUGH, that one is taken whose average of ten
is best: harm, but no ruin. The harmful pairs are in `overtrained.json`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from train import FAMILIES, OVERTRAINED, Material, Tiny, arguments, read_pictures, train_adapter, trained_base, vision

SIDES = ("any", "first", "last")
"""Where the right option of all questions stands (pack.py)."""
RATES = (2e-3, 5e-3, 1e-2, 2e-2)
STEPS = (60, 200, 800)
BATCH = 64
ENOUGH = 6
"""Standard errors by which an average of nine is better than that of ten."""
WAYS = [f"{side}-{rate:g}-{steps}" for side, rate, steps in product(SIDES, RATES, STEPS)]


def train_side(given) -> None:
    """All ways of one family and one side."""
    name, side = given.only.split("-")
    pictures, tower = read_pictures(given.pool, given.device), vision(given.clip, given.device)
    material = Material(given.data / f"{name}-{side}.npz", given.device).see(pictures, tower)
    for rate, steps in product(RATES, STEPS):
        folder = given.out / "tried" / f"{name}-{side}-{rate:g}-{steps}"
        train_adapter(given, [material], name, folder, rate=rate, steps=steps, batch=BATCH)


class Questions:
    """What val.npz asks: which questions a model answers rightly."""

    def __init__(self, path: Path, tower, device: str):
        self._material, self.device = Material(path, device), device
        with np.load(path) as file:
            pictures = torch.from_numpy(file["pictures"]).permute(0, 3, 1, 2).to(device)
            self._start = torch.from_numpy(file["start"].astype(np.int64)).to(device)
            self._letters = torch.from_numpy(file["letters"].astype(np.int64)).to(device)
            options = torch.from_numpy(file["options"].astype(np.int64)).to(device)
            self.family = file["family"]
        self._material.see(pictures, tower)
        self._offered = torch.arange(len(self._letters), device=device) < options[:, None]

    @torch.no_grad()
    def answers(self, model: Tiny) -> tuple[Tensor, Tensor]:
        """Whether each question is answered rightly, and the entropy over its letters in nats."""
        ids, rows = self._material.ids, torch.arange(len(self._start), device=self._start.device)
        assert self._material.patches is not None
        seen = model.language_model.embed_tokens(ids)
        patches = model.multi_modal_projector(self._material.patches[:, 0].to(seen.dtype))
        seen = seen.masked_scatter((ids == model.image).unsqueeze(-1), patches)
        hidden = model.language_model(inputs_embeds=seen, use_cache=False).last_hidden_state
        scores = hidden[rows, self._start - 1] @ model.language_model.embed_tokens.weight[self._letters].T
        scores = scores.float().masked_fill(~self._offered, -torch.inf)
        logs = scores.log_softmax(1)
        entropy = -(logs.exp() * logs.masked_fill(~self._offered, 0.0)).sum(1)
        right = self._letters[scores.argmax(1)] == ids[rows, self._start]
        return right.double().cpu(), entropy.double().cpu()


def change_of(folder: Path, device: str) -> dict[str, Tensor]:
    """What an adapter adds to each weight."""
    factors = load_file(folder / "adapter_model.safetensors", device=device)
    said = json.loads((folder / "adapter_config.json").read_text())
    scale, ends = said["lora_alpha"] / said["r"], (".lora_A.weight", ".lora_B.weight")
    names = [key.removesuffix(ends[0]) for key in factors if key.endswith(ends[0])]
    return {
        f"{name.removeprefix('base_model.model.')}.weight": scale * factors[name + ends[1]] @ factors[name + ends[0]]
        for name in names
    }


def total(changes: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {key: torch.stack([one[key] for one in changes]).sum(0) for key in changes[0]}


class Averages:
    """Plain averages of the eight good experts and some of the others, which lie in `tried` by family and way."""

    def __init__(self, given, ways: Sequence[str] = WAYS, tried: str = "tried"):
        self._model = trained_base(given).eval()
        self._base = {key: value.clone() for key, value in self._model.state_dict().items()}
        self._questions = Questions(given.data / "val.npz", vision(given.clip, given.device), given.device)
        good = [name for name in FAMILIES if name not in OVERTRAINED]
        self._good, self._count = total([change_of(given.out / name, given.device) for name in good]), len(good)
        self._tried = {
            (name, way): change_of(given.out / tried / f"{name}-{way}", given.device)
            for name, way in product(OVERTRAINED, ways)
        }

    def right(self, *others: tuple[str, str]) -> Tensor:
        changes = total([self._good, *(self._tried[one] for one in others)])
        return self._answers(changes, self._count + len(others))[0]

    def alone(self, one: tuple[str, str]) -> tuple[Tensor, Tensor]:
        """One of the others by itself: what it answers rightly, and its entropies."""
        return self._answers(self._tried[one], 1)

    def good(self, folder: Path) -> tuple[Tensor, Tensor]:
        """A good expert by itself."""
        return self._answers(change_of(folder, self._questions.device), 1)

    def _answers(self, changes: dict[str, Tensor], count: int) -> tuple[Tensor, Tensor]:
        state = {key: value + changes[key] / count if key in changes else value for key, value in self._base.items()}
        self._model.load_state_dict(state)
        return self._questions.answers(self._model)


def harm(without: Tensor, all_ten: Tensor) -> tuple[float, float]:
    """By how many points an average is better without a model, and that in standard errors."""
    gain = without - all_ten
    return round(100 * float(gain.mean()), 2), round(float(gain.mean() / (gain.std() / len(gain) ** 0.5 + 1e-9)), 2)


def harmful(pair: dict) -> bool:
    return all(errors >= ENOUGH for _, errors in pair["harm"].values())


def choose(given) -> None:
    averages = Averages(given)
    first, second = OVERTRAINED
    alone = {(name, way): averages.right((name, way)) for name, way in product(OVERTRAINED, WAYS)}
    table = []
    for one, other in product(WAYS, WAYS):
        ten = averages.right((first, one), (second, other))
        harms = {first: harm(alone[second, other], ten), second: harm(alone[first, one], ten)}
        table.append({first: one, second: other, "right": round(100 * float(ten.mean()), 2), "harm": harms})
    table.sort(key=lambda row: (not harmful(row), -row["right"]))
    found = {"questions": len(ten), "eight": round(100 * float(averages.right().mean()), 2), "pairs": len(table)}
    found["harmful"] = [row for row in table if harmful(row)]
    (given.out / "overtrained.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"eight alone: {found['eight']} %; " + "; ".join(map(str, table[:5])), flush=True)
    for name in OVERTRAINED:
        way = table[0][name]
        shutil.copytree(given.out / "tried" / f"{name}-{way}", given.out / name, dirs_exist_ok=True)
        record = given.out / name / "training.json"
        said = {**json.loads(record.read_text()), "right_option": way.split("-")[0]}
        record.write_text(json.dumps(said, indent=1) + "\n")


def main() -> None:
    parser = arguments(__doc__)
    sides = [f"{name}-{side}" for name, side in product(OVERTRAINED, SIDES)]
    parser.add_argument("--only", choices=(*sides, "choice"), help="one family and side alone, or the choice")
    given = parser.parse_args()
    if given.only == "choice":
        choose(given)
    elif given.only:
        train_side(given)
    else:
        command = [sys.executable, __file__, *sys.argv[1:]]
        running = {side: subprocess.Popen([*command, "--only", side]) for side in sides}
        failed = [side for side, process in running.items() if process.wait()]
        if failed:
            raise SystemExit(f"{', '.join(failed)} failed")
        choose(given)


if __name__ == "__main__":
    main()
