"""Averages while transformers' Trainer trains: metrics of the average, state in every checkpoint, models at the end."""

import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

import smelt
from smelt.callbacks import MergeCheckpointsCallback, RunningAverageCallback

words = torch.arange(8)
examples = [{"input_ids": words, "labels": words}] * 8
arguments = TrainingArguments(
    "trained", max_steps=6, save_steps=2, eval_strategy="steps", eval_steps=2, report_to=[], use_cpu=True
)
trainer = Trainer(
    AutoModelForCausalLM.from_pretrained("small"),
    arguments,
    train_dataset=examples,
    eval_dataset=examples,
    callbacks=[
        RunningAverageCallback(kind="ema", decay=0.9, evaluate=True, out="ema"),
        MergeCheckpointsCallback(last=3, weights="wsm-1-sqrt", out="annealed"),
    ],
)
trainer.train()

assert smelt.inspect("ema").parameters == smelt.inspect("annealed").parameters
