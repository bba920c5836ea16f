"""Two services on one hub under load, one of which is killed: is anything lost, and how long do answers take?

    python benchmarks/hub_load.py -o results/hub_load.json                            # five minutes, SQLite
    python benchmarks/hub_load.py --database postgres -o results/hub_load_postgres.json
    python benchmarks/hub_load.py --seconds 20 --clients 16                           # does the harness work?

64 clients of 127.0.0.1 ask a hub of tiny models: lists, models, the graph, jobs, selections, predictions, and 3 % of
their requests send in a model, which is labelled in a job. Each pauses a second on average between two requests. After
a third of the time one service is killed (-9) and after a tenth more started again on its port; at two thirds a backup
is taken; at the end the other service is killed, too, before the clients stop. Then one process finishes the jobs that
are left, and it is checked: every submission that was answered is there, with the bytes that were sent; every job has
ended once; both backups, that one and one taken now, restore to hubs with what they should have and equal selections.

Before the load both services are asked once for a selection and a prediction, so that their libraries are loaded. The
one that is started again is not: what its first clients wait for is in the numbers.

`hub_load_clients.py` says how answers are counted. The services' rates per client are high, since all clients are one
address. Everything lies in a temporary folder; what was started is ended.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from hub_load_clients import Client, Tally, run_clients, variant
from provenance import provenance
from result_file import save, say

CLASSES = ["red", "green", "blue"]
_MOST = 300.0
"""Seconds that something may take beside the load: to start, to finish jobs."""


def main() -> None:
    """Run, check, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two requests of a client, on average")
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve[0], args.serve[1] or None, int(args.serve[2]))
        return
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="smelt-load-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        os.environ["SMELT_CACHE"] = str(folder / "cache")
        where, files = str(folder / "hub"), None
        if args.database == "postgres":
            import postgres

            where, files = stack.enter_context(postgres.server()), str(folder / "files")
        found = loaded(folder, where, files, args.clients, args.seconds, args.pause)
    result = {"provenance": provenance([], 0), "database": args.database, **found}
    save(args.output, result)
    print(json.dumps({key: value for key, value in result.items() if key != "provenance"}, indent=1))
    if found["faults"]:
        sys.exit("something went wrong; see faults")


def serve(where: str, files: str | None, port: int) -> None:
    """A service of its own, until it is killed."""
    from smelt.hub.hub import Hub
    from smelt.hub.service.serve import serve as run
    from smelt.hub.service.settings import Rate, Settings

    rates = {kind: Rate(100_000, 1_000_000.0) for kind in ("read", "think", "submit")}
    with Hub.open(where, files=files) as hub:
        run(hub, port=port, settings=Settings(rates=rates), ready=lambda address: print(address, flush=True))


class Service:
    """A service in a process, which can be killed and started again on its port."""

    def __init__(self, where: str, files: str | None):
        self.where, self.files, self.port = where, files, 0
        self.start()

    def start(self) -> float:
        """Gives the seconds until it listened."""
        began = time.monotonic()
        command = [sys.executable, __file__, "--serve", self.where, self.files or "", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a service did not start")
        self.port = int(line.strip().rstrip("/").rpartition(":")[2])
        return time.monotonic() - began

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def loaded(folder: Path, where: str, files: str | None, count: int, seconds: float, pause: float) -> dict[str, Any]:
    """The whole run: what was seen, and what was found afterwards."""
    from pico_hub import CLASSES as COLOURS
    from pico_hub import model, new_hub, pixels
    from smelt.hub.hub import Hub

    words: dict[str, Any] = {"embedder": "hashed", "node_text": "name"}
    with new_hub(where, files=files, **words) as hub:
        for name in ("knows", "guesses1"):
            hub.add(model(folder / name, name))
        token = hub.create_token("load")
        hub.resume_jobs()
        number = hub.start_label_job("knows")  # so that there is a job to ask about
        while hub.job(number).status != "done":
            time.sleep(0.1)
    assert set(CLASSES) == set(COLOURS)
    sent = {path.name: path.read_bytes() for path in (folder / "knows").iterdir()}
    tally, events = Tally(), dict[str, float]()
    services = [Service(where, files) for _ in range(2)]
    say(f"two services at {[one.port for one in services]}, {count} clients, {seconds:g} s")
    for one in services:
        first = Client(0, [one.port], Tally(), sent, token, _png(pixels("red")), pause)
        for kind in ("select", "predict"):
            first.ask(kind, time.monotonic())
    began, load = time.time(), os.getloadavg()

    def later(share: float) -> None:
        time.sleep(max(0.0, began + share * seconds - time.time()))
        events[f"load_average_at_{share:.2f}"] = round(os.getloadavg()[0], 1)

    def meanwhile() -> None:
        later(0.33)
        services[0].kill()
        events["killed_s"] = round(time.time() - began, 1)
        later(0.43)
        events["seconds_to_start_again"] = round(services[0].start(), 1)
        events["back_s"] = round(time.time() - began, 1)
        later(0.67)
        events["backup_began"] = time.time()
        with Hub.open(where, files=files) as hub:
            hub.backup(folder / "during")
        events["backup_s"] = round(time.time() - events["backup_began"], 1)
        later(0.995)
        services[1].kill()

    clients = [
        Client(number, [one.port for one in services], tally, sent, token, _png(pixels("red")), pause)
        for number in range(count)
    ]
    try:
        threading.excepthook = lambda hook: tally.errors.append(f"{hook.exc_type.__name__}: {hook.exc_value}")
        run_clients(clients, seconds, meanwhile)
        took = time.time() - began
    finally:
        for one in services:
            if one.process.poll() is None:
                one.kill()
    counts = {kind: dict(found) for kind, found in sorted(tally.counts.items())}
    total = sum((Counter(found) for found in tally.counts.values()), Counter[str]())
    after = checked(folder, where, files, tally, events, sent["model.safetensors"])
    timeouts = [f"{total['timeout']} requests were not answered in time"] if total["timeout"] else []
    return {
        "clients": count,
        "seconds": round(took, 1),
        "pause_s": pause,
        "load_average_at_start": [round(one, 1) for one in load],
        "requests_per_second": round(total["ok"] / took, 1),
        "total": dict(total),
        "counts": counts,
        "milliseconds": tally.table(),
        "events": {name: value for name, value in events.items() if name != "backup_began"},
        **after,
        "faults": [*tally.errors[:20], *timeouts, *after.pop("faults")],
    }


def checked(
    folder: Path, where: str, files: str | None, tally: Tally, events: dict[str, float], weights: bytes
) -> dict[str, Any]:
    """After everything was killed: finish the jobs, and look for what was promised."""
    from smelt.hub.hub import Hub

    faults = list[str]()
    with Hub.open(where, files=files) as hub:
        left = sum(job.status in ("waiting", "running") for job in hub.jobs())
        hub.resume_jobs()
        end = time.monotonic() + _MOST
        while any(job.status in ("waiting", "running") for job in hub.jobs()) and time.monotonic() < end:
            time.sleep(0.2)
        jobs, cards = hub.jobs(), {card.name: card for card in hub.models()}
        lost = sorted(set(tally.accepted) - set(cards))
        faults += [f"{name} was accepted and is lost" for name in lost]
        for name in set(tally.accepted) - set(lost):
            number, sent = (int(part) for part in name.split("-")[1:])
            wanted = hashlib.sha256(variant(weights, hash((number, sent)))).hexdigest()
            if wanted not in {sha256 for _, _, sha256 in hub.model(name).files}:
                faults.append(f"{name} has other bytes than were sent")
            own = [job for job in jobs if job.model == name]
            if [job.status for job in own] != ["done"] or not cards[name].label:
                faults.append(f"{name} has the jobs {[(job.id, job.status, job.error) for job in own]}")
        with hub._store.read() as session:
            from smelt.hub.store.schema import JobRow

            attempts = Counter(row.attempts for row in session.query(JobRow))
        hub.backup(folder / "after")
        now = _chosen(hub)
    Hub.restore(folder / "after", folder / "restored-after")
    Hub.restore(folder / "during", folder / "restored-during")
    with Hub.open(folder / "restored-after") as hub:
        if {card.name: card.hash for card in hub.models()} != {name: card.hash for name, card in cards.items()}:
            faults.append("the restored hub has other models")
        if _chosen(hub) != now:
            faults.append("the restored hub selects otherwise")
    with Hub.open(folder / "restored-during") as hub:
        there = {card.name for card in hub.models()}
        before = {name for name, at in tally.accepted.items() if at < events["backup_began"]}
        faults += [f"{name} was accepted before the backup and is not in it" for name in sorted(before - there)]
    extra = [name for name in cards if name.startswith("sent-") and name not in tally.accepted]
    return {
        "accepted": len(tally.accepted),
        "lost": len(lost),
        "there_though_never_answered": len(extra),
        "jobs": dict(Counter(job.status for job in jobs)),
        "jobs_left_when_all_were_killed": left,
        "attempts_of_jobs": {str(count): number for count, number in sorted(attempts.items())},
        "accepted_before_the_backup": len(before),
        "faults": faults,
    }


def _chosen(hub: Any) -> Any:
    return hub.select(CLASSES, nodes=2, k=3).as_dict()


def _png(pixels: Any) -> bytes:
    import io

    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


if __name__ == "__main__":
    main()
