"""Where the time of one merge goes: its threads are looked at every two milliseconds, and what they do is counted.

    python benchmarks/where.py [--methods linear,ties] [--size 0.48b] [-o OUT]

Each merge is a process of its own that runs the command itself; a thread beside it looks at the stack of every other
thread. The machine's passes, in which files are read, hashed and written too, give up the interpreter's lock, so that
looking costs them nothing. Seconds are those of threads: two that read at once for a second are two seconds of reading.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import FrameType

from checkpoints import SIZES, ensure
from provenance import provenance
from recipes import RECIPES
from tools import find_smelt

EVERY = 0.002
BY_ITSELF = "the vector machine"
IN_ONE = "reading, hashing, the vector machine and writing"
DOES = {
    ("machine.py", "feed"): BY_ITSELF,
    ("machine.py", "feed_files"): IN_ONE,
    ("machine.py", "run"): IN_ONE,
    ("machine.py", "read"): "reading",
    ("safetensors.py", "read_bytes"): "reading",
    ("sink.py", "write"): "writing",
    ("sink.py", "write_once"): "writing",
    ("blake3.py", None): "hashing what was not read",
    ("torch", None): "torch",
}
"""By file and function, the innermost that is known."""
PHASES = {"fold_span": "thresholds and sums", "merge_span": "the merge", "merge_small": "the merge"}
"""Of the vector machine, by the function of a backend that called it."""
WAITS = {
    ("threading.py", "wait"),
    ("threading.py", "_wait_for_tstate_lock"),
    ("thread.py", "_worker"),
    ("executor.py", "run_workflows"),
}


def doing(frame: FrameType | None) -> str | None:
    """What a thread does; nothing where it waits for others."""
    found, seen = None, False
    while frame is not None:
        file, name = Path(frame.f_code.co_filename).name, frame.f_code.co_name
        if not seen and ((file, name) in WAITS or file == "queue.py"):
            return None
        if "importlib._bootstrap" in frame.f_code.co_filename:
            return "imports"
        seen = True
        if found is None:
            found = DOES.get((file, name)) or DOES.get((file, None))
            if "site-packages/torch" in frame.f_code.co_filename:
                found = found or DOES["torch", None]
        if found in (BY_ITSELF, IN_ONE) and file == "backend.py" and name in PHASES:
            return f"{found}: {PHASES[name]}"
        frame = frame.f_back
    return found or "other Python"


def watch(counts: Counter[str], ended: threading.Event) -> None:
    own = threading.get_ident()
    last = time.perf_counter()
    while not ended.wait(EVERY):
        now = time.perf_counter()
        for number, frame in sys._current_frames().items():
            what = doing(frame) if number != own else None
            if what:
                counts[what] += now - last
        last = now


def watched(words: list[str]) -> None:
    """The command, watched from before its first import; prints what was counted."""
    counts: Counter[str] = Counter()
    ended = threading.Event()
    watcher = threading.Thread(target=watch, args=(counts, ended), daemon=True)
    began = time.perf_counter()
    watcher.start()
    try:
        from smelt.cli import main

        sys.argv = ["smelt", *words]
        main()
    except SystemExit as stop:
        if stop.code:
            raise
    finally:
        ended.set()
        watcher.join()
    print(json.dumps({"wall_s": time.perf_counter() - began, "thread_s": dict(counts.most_common())}))


def one(method: str, checkpoints: Path, work: Path, models: int, threads: int | None) -> dict[str, object]:
    recipe = RECIPES[method]
    config = replace(recipe, models=recipe.models[:models]).write(work / f"{method}.yaml", checkpoints)
    out = work / "watched"
    words = ["merge", str(config), "-o", str(out), "--quiet", *(["--threads", str(threads)] if threads else [])]
    answers = []
    for _ in range(3):
        shutil.rmtree(out, ignore_errors=True)
        command = [sys.executable, __file__, "--watched", *words]
        answers.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    shutil.rmtree(out, ignore_errors=True)
    return {"method": method, **sorted(answers, key=lambda answer: answer["wall_s"])[1]}


def main() -> None:
    if sys.argv[1:2] == ["--watched"]:
        watched(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", type=lambda text: text.split(","), default=["linear", "ties", "dare_ties"])
    parser.add_argument("--size", choices=sorted(SIZES), default="0.48b")
    parser.add_argument("--models", type=int, default=3, help="fine-tunes that are merged")
    parser.add_argument("--threads", type=int, help="of each merge (default: as many as cores)")
    parser.add_argument("--work", type=Path, default=Path(".bench"))
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    two = "-two" if given.models == 2 else ""
    checkpoints = given.work.resolve() / f"checkpoints-{given.size}{two}-seed0"
    ensure(checkpoints, replace(SIZES[given.size], fine_tunes=given.models))
    found: dict[str, object] = {"provenance": provenance([find_smelt(None)], 0), "every_s": EVERY, "size": given.size}
    work = given.work.resolve()
    found["merges"] = [one(method, checkpoints, work, given.models, given.threads) for method in given.methods]
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n")
    for merge in found["merges"]:
        print(merge["method"], f"{merge['wall_s']:.2f} s")
        for what, seconds in merge["thread_s"].items():
            print(f"  {seconds:6.2f} s  {what}")


if __name__ == "__main__":
    main()
