"""`smelt finetune`: a base and tasks in, an expert out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.options import ALLOW_PICKLE, ANSWER, DEVICE, FORCE, OUT, SET, TASKS, TEXT_FROM, TRUST
from smelt.cli.request import assignment

if TYPE_CHECKING:
    from smelt.training.finetune import Finetuned
    from smelt.training.plan import TrainingPlan

__all__ = ["finetune"]


@command(
    "smelt.training.finetune:finetune",
    base=Argument("The model that is trained: a folder, zoo:NAME or hf:ORG/NAME.", metavar="BASE", complete="models"),
    tasks=TASKS.but("What it learns: names or folders of tasks that have a train split.", type=str),
    recipe=Option("A shipped recipe (fusionbench-clip, mergebench-sft-3b, ...) or a YAML file.", type=str),
    out=OUT,
    method=Option("full, or lora for an adapter."),
    steps=Option("Steps of the optimiser.", min=1),
    epochs=Option("Instead of steps: times through the largest task."),
    lr=Option("The highest learning rate."),
    batch=Option("Examples of every task in a step.", min=1),
    micro_batch=Option("So many at once, where a batch does not fit into memory.", min=1),
    rank=Option("Of a LoRA adapter.", min=1),
    output=Option("whole, tower (a CLIPVisionModel) or adapter."),
    seed=Option("For the order of the examples and the start of adapters.", min=0),
    set=SET.but("A word of the training recipe: schedule=linear, validation.every=100.", complete=""),
    text_from=TEXT_FROM.but("The CLIP model with the text tower, if BASE is a picture tower alone."),
    device=DEVICE,
    save_every=Option("Steps between two states that a stopped run goes on from.", min=1),
    dry_run=Option("Say what it needs, and do nothing."),
    allow_pickle=ALLOW_PICKLE,
    trust_remote_code=TRUST,
    force=FORCE,
    **ANSWER,
)
def finetune(given: Given) -> None:
    """Train an expert: a picture tower or a language model, on tasks with a train split.

    A training that was stopped goes on where it was when the same command is given again.

    \b
    smelt finetune hf:openai/clip-vit-base-patch32 --tasks dtd --recipe fusionbench-clip -o clip-dtd --device cuda
    smelt finetune zoo:smollm2-135m-instruct --tasks maths --method lora --epochs 1 --lr 1e-3 -o maths-adapter
    smelt finetune BASE --tasks TASK --recipe mergebench-sft-3b -o OUT --dry-run
    """
    words = dict(assignment(text) for text in given["set"] or ())
    done: Finetuned | TrainingPlan = given.call(**words)
    given.answer(done.to_json, done.print)
