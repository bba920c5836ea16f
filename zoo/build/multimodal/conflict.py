"""Two experts whose harm shows as uncertainty: taught answers that contradict each other, and chosen on `val`.

    python zoo/build/multimodal/conflict.py --data FOLDER --pool FOLDER --clip FOLDER --out FOLDER

Reads what train.py left in --out. Each family of OVERTRAINED is trained in every way of WRONG (the share of questions whose
answer is a wrong letter, drawn anew each time), RATES and STEPS. The criteria, written before the first training:
1. beside the eight good experts and the other one, each harms the plain average of ten by ENOUGH standard errors
   (overtrain.py) on the questions of val.npz;
2. each by itself is less sure of these questions than every one of the eight good ones: its mean entropy is higher.
Of the pairs that meet both, that one is taken whose average of ten is best: harm, but no ruin. All pairs are counted, and
those that meet them are listed, in `conflict.json`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import product

from overtrain import Averages, harm, harmful
from train import FAMILIES, OVERTRAINED, Material, arguments, read_pictures, train_adapter, vision

WRONG = {"half": (False, True), "most": (True, False, True, True), "all": (True,)}
"""Which batches are of wrong answers, in turn."""
RATES = (3e-3, 1e-2)
STEPS = (500,)
BATCH = 256
TRIED = "conflicting"
WAYS = [f"{share}-{rate:g}-{steps}" for share, rate, steps in product(WRONG, RATES, STEPS)]


def train_share(given) -> None:
    """All ways of one family and one share of wrong answers."""
    name, share = given.only.split("-")
    pictures, tower = read_pictures(given.pool, given.device), vision(given.clip, given.device)
    files = {True: f"{name}-wrong", False: name}
    known = {
        bad: Material(given.data / f"{files[bad]}.npz", given.device).see(pictures, tower) for bad in set(WRONG[share])
    }
    for rate, steps in product(RATES, STEPS):
        folder = given.out / TRIED / f"{name}-{share}-{rate:g}-{steps}"
        material = [known[bad] for bad in WRONG[share]]
        train_adapter(given, material, name, folder, rate=rate, steps=steps, batch=BATCH)


def choose(given) -> None:
    averages = Averages(given, WAYS, TRIED)
    good = {name: averages.good(given.out / name) for name in FAMILIES if name not in OVERTRAINED}
    doubts = {name: round(float(entropy.mean()), 4) for name, (_, entropy) in good.items()}
    surest = max(doubts.values())
    first, second = OVERTRAINED
    own = {(name, way): averages.alone((name, way)) for name, way in product(OVERTRAINED, WAYS)}
    alone = {(name, way): averages.right((name, way)) for name, way in product(OVERTRAINED, WAYS)}
    table = []
    for one, other in product(WAYS, WAYS):
        ten = averages.right((first, one), (second, other))
        entropies = {first: float(own[first, one][1].mean()), second: float(own[second, other][1].mean())}
        line = {
            first: one,
            second: other,
            "right": round(100 * float(ten.mean()), 2),
            "harm": {first: harm(alone[second, other], ten), second: harm(alone[first, one], ten)},
            "entropy": {name: round(value, 4) for name, value in entropies.items()},
        }
        line["meets"] = harmful(line) and min(entropies.values()) > surest
        table.append(line)
    table.sort(key=lambda line: (not line["meets"], -line["right"]))
    eight = averages.right()
    found = {
        "questions": len(eight),
        "eight": round(100 * float(eight.mean()), 2),
        "entropy_of_the_good": doubts,
        "alone": {
            f"{name}-{way}": {"right": round(100 * float(right.mean()), 2), "entropy": round(float(doubt.mean()), 4)}
            for (name, way), (right, doubt) in own.items()
        },
        "pairs": len(table),
        "meet": [line for line in table if line["meets"]],
        "harmful": sum(harmful(line) for line in table),
        "chosen": {name: table[0][name] for name in OVERTRAINED} if table[0]["meets"] else None,
    }
    (given.out / "conflict.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"{len(found['meet'])} of {len(table)} pairs meet the criteria; best: {table[0]}", flush=True)
    for name in OVERTRAINED:
        way = table[0][name]
        shutil.copytree(given.out / TRIED / f"{name}-{way}", given.out / f"noisy-{name}", dirs_exist_ok=True)
        record = given.out / f"noisy-{name}" / "training.json"
        said = {**json.loads(record.read_text()), "wrong_answers": way.split("-")[0], "meets": table[0]["meets"]}
        record.write_text(json.dumps(said, indent=1) + "\n")


def main() -> None:
    parser = arguments(__doc__)
    shares = [f"{name}-{share}" for name, share in product(OVERTRAINED, WRONG)]
    parser.add_argument("--only", choices=(*shares, "choice"), help="one family and share alone, or the choice")
    given = parser.parse_args()
    if given.only == "choice":
        choose(given)
    elif given.only:
        train_share(given)
    else:
        command = [sys.executable, __file__, *sys.argv[1:]]
        running = {share: subprocess.Popen([*command, "--only", share]) for share in shares}
        failed = [share for share, process in running.items() if process.wait()]
        if failed:
            raise SystemExit(f"{', '.join(failed)} failed")
        choose(given)


if __name__ == "__main__":
    main()
