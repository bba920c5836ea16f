"""Runs that write to a store on which much goes wrong, killed at random and gone on with, by a seed.

    python tests/support/object_output_campaign.py --runs 20 -o results/object_store_faults.json

In each run one request in ten is refused, cut or changed on the way, and the merge's process is killed (SIGKILL) after
a random number of requests, up to four times; then it is gone on with. After every kill what can be seen is judged:
with a manifest it has to be the whole output, and without one no reader takes it for one. In the end the bytes are
those of a local merge, and no upload and no note is left.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkpoints import snapshot
from object_outputs import KIB, clean_store, merged, model_store, write_pool
from s3_server import Environ, Fault, S3Server, change_part, cut_part, is_part, refuse, slow_down

CHILD = f"""
import sys
import smelt
from smelt.engine.sink.objects import upload
for name in ("FIRST_BYTES", "LEAST", "INSIDE"):
    setattr(upload, name, {256 * KIB})
base, cars, birds = sys.argv[1:]
smelt.merge(
    {{"cars": cars, "birds": birds}}, base=base, method="ties", density=0.2, out="s3://models/out",
    shard_size="600KB", resume=True,
)
"""
SHARE = 0.1
KILLS = 4
LONGEST = 120.0


def campaign(
    runs: int, seed: int, folder: Path, tell: Callable[[dict[str, Any]], None] = lambda found: None
) -> dict[str, Any]:
    """So many runs; what happened in them, told after each. An AssertionError says what broke the promise."""
    pool = write_pool(folder / "pool")
    merged(pool, folder / "out", shard_size="600KB")
    whole = snapshot(folder / "out")
    found: Counter[str] = Counter()
    with model_store() as server:
        os.environ["AWS_MAX_ATTEMPTS"] = "6"
        for number in range(runs):
            with clean_store(server):
                _one(server, pool, whole, random.Random(f"{seed} {number}"), found)
            told = {"runs": number + 1, "seed": seed, "share_of_faults": SHARE, **dict(sorted(found.items()))}
            tell(told)
    return told


def _one(
    server: S3Server, pool: dict[str, str], whole: dict[str, bytes], chance: random.Random, found: Counter[str]
) -> None:
    server.faults.append(_faults(chance, found))
    for attempt in range(KILLS + 20):
        until = chance.randrange(4, 45) if attempt < KILLS else None
        begin = len(server.requests)
        child = subprocess.Popen([sys.executable, "-c", CHILD, *pool.values()], stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + LONGEST
        while child.poll() is None and (until is None or len(server.requests) - begin < until):
            assert time.monotonic() < deadline, "a run took longer than two minutes"
            time.sleep(0.01)
        killed = child.poll() is None
        child.kill()
        said = child.communicate()[1]
        server.faults, faults = [], server.faults
        seen = {key.removeprefix("out/"): one for key, one in server.objects("models", "out/").items()}
        assert "manifest.json" not in seen or seen == whole, "a manifest stands over what is not whole"
        assert all(whole.get(name) == content for name, content in seen.items()), "something else is visible"
        found["kills" if killed else "ended by themselves"] += 1
        if not killed and child.returncode == 0:
            break
        assert killed or "OutputError" in said, said
        found["given up on the store"] += not killed
        found["visible without a manifest after that"] += bool(seen)
        server.faults = faults
    assert seen == whole
    assert not server.uploads("models")
    assert not [key for key in server.objects("models") if not key.startswith("out/")]
    found["whole in the end"] += 1


def _faults(chance: random.Random, found: Counter[str]) -> Fault:
    kinds = {
        "slow down": lambda: slow_down(1),
        "internal error": lambda: refuse("InternalError", "500 Internal Server Error", 1),
        "connection cut": lambda: cut_part(1),
        "refused as changed": lambda: change_part(1),
        "taken though changed": lambda: change_part(1, checked=False),
    }

    def fault(environ: Environ, start: Any) -> Any:
        if chance.random() > SHARE:
            return None
        name = chance.choice(list(kinds) if is_part(environ) else list(kinds)[:2])
        found[f"fault: {name}"] += 1
        return kinds[name]()(environ, start)

    return fault


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--out", type=Path, required=True)
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from provenance import provenance
    from result_file import save

    head = {"provenance": provenance([], given.seed)}
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        campaign(given.runs, given.seed, Path(folder), lambda found: save(given.out, {**head, **found}))


if __name__ == "__main__":
    main()
