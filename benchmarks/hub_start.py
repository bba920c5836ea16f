"""What a newcomer waits for: the first selection with an empty cache, and the first that a new service answers.

    python benchmarks/hub_start.py [-o OUT.json]

Home, cache and hub are folders that are empty before and removed afterwards. `select`: a hub with one labelled model of
the zoo is made (not timed), then `smelt hub select` is run. `serve`: `smelt hub serve` makes a hub of the zoo; how long
until it listens, until it answers a selection (it is asked every second), and what selections take while it goes on
labelling. Seconds of CPU time tell how much of a busy machine's wall time is waiting.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from provenance import provenance

CLASSES = ["beagle", "tabby cat", "passenger ship"]
SMELT = [str(Path(sys.executable).with_name("smelt")), "hub"]
MODEL = "zoo:clip-mini"
MOST = 600.0
"""Seconds after which it is given up."""


def main() -> None:
    """Measure both, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hub-start-"))
    try:
        result = {"provenance": provenance([], 0), "load": os.getloadavg(), "select": first_select(folder)}
        result["serve"] = first_served(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = json.dumps(result, indent=1)
    if arguments.output:
        arguments.output.write_text(text + "\n")
    print(text)


def newcomer(folder: Path, name: str) -> dict[str, str]:
    """The environment of somebody who has nothing yet."""
    home = folder / name
    home.mkdir()
    cleared = {key: value for key, value in os.environ.items() if not key.startswith(("SMELT_", "XDG_"))}
    return {**cleared, "HOME": str(home), "SMELT_HUB": str(home / "hub"), "SMELT_CACHE": str(home / "cache")}


def first_select(folder: Path) -> dict[str, float]:
    """Wall and CPU seconds of the command."""
    environment = newcomer(folder, "select")
    for words in (["init", "--node-text", "name", "--quiet"], ["add", MODEL, "--quiet"]):
        subprocess.run([*SMELT, *words], check=True, env=environment, stdout=subprocess.DEVNULL)
    shutil.rmtree(environment["SMELT_CACHE"], ignore_errors=True)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [*SMELT, "select", "--classes", ",".join(CLASSES)]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": round(time.perf_counter() - began, 2), "cpu_s": round(cpu, 2)}


def first_served(folder: Path) -> dict[str, object]:
    """When a new service listens and answers, and how quick it is meanwhile."""
    began = time.perf_counter()
    command = [*SMELT, "serve", "--port", "0"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            command, env=newcomer(folder, "serve"), stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        listens = time.perf_counter() - began
        while (answer := ask(address, {"classes": CLASSES})) is None:
            if time.perf_counter() - began > MOST:
                raise SystemExit(f"the service answers no selection:\n{(folder / 'log').read_text()[-2000:]}")
            time.sleep(1)
        answers, cpu, later = time.perf_counter() - began, cpu_seconds(process.pid), []
        for number in range(5):
            start = time.perf_counter()
            ask(address, {"classes": [*CLASSES, f"thing number {number}"]})
            later.append(time.perf_counter() - start)
        with urllib.request.urlopen(f"{address}api/v1/hub") as opened:
            state = json.load(opened)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    return {
        "listens_s": round(listens, 2),
        "answers_s": round(answers, 2),
        "cpu_s": round(cpu, 2),
        "used": answer["used"],
        "while_it_labels_s": round(statistics.median(later), 2),
        "labelled": state["labelled"],
        "models": state["models"],
    }


def ask(address: str, task: Mapping[str, object]) -> dict[str, object] | None:
    """A selection; None while no model is labelled."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}api/v1/select", json.dumps(task).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=MOST) as answer:
            found: dict[str, object] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        if error.code != 503:
            raise
        return None


def cpu_seconds(pid: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
