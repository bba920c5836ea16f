"""Jobs of a hub from the command line."""

from __future__ import annotations

import typer

from smelt.cli.from_function import Argument, Given, Option, command, group
from smelt.cli.hub.options import FILES, HUB, QUIET, as_text, opened
from smelt.cli.options import JSON

__all__ = ["app"]

app = group("job", "Labelling in the background, by whichever service of the hub.")


@app.command("ls")
@command(
    "smelt.hub.hub:Hub.jobs",
    model=Option("Those of one model.", metavar="NAME"),
    limit=Option("So many, the newest first.", min=1, default=20),
    hub=HUB,
    files=FILES,
    as_json=JSON,
)
def job_ls(given: Given) -> None:
    """List the jobs, and how far they are."""
    with opened(given) as here:
        found = here.jobs(**given.words())
    if given.as_json:
        typer.echo(as_text(found))
        return
    for one in found:
        one.print()


@app.command("cancel")
@command(
    "smelt.hub.hub:Hub.cancel_job",
    id=Argument("The job's number.", metavar="NUMBER"),
    hub=HUB,
    files=FILES,
    quiet=QUIET,
)
def job_cancel(given: Given) -> None:
    """End a job that waits or runs, wherever it does; one that runs ends within seconds."""
    with opened(given) as here:
        job = here.cancel_job(given["id"])
    if not given.quiet:
        typer.echo(f"job {job.id} is cancelled" if job.finished else f"job {job.id} will end in a moment")
