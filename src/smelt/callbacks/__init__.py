"""Averaging while a model trains: a running average for any loop, and callbacks for transformers' Trainer.

    trainer = Trainer(..., callbacks=[RunningAverageCallback(kind="ema", decay=0.999, out="averaged")])

    with running_average(model, since=1000) as average:
        for batch in batches:
            ...
            average.update()
    average.save("averaged")

In: a model that trains, step by step. Out: a folder with the averaged model; checkpoints keep what it needs to go on.
"""

from __future__ import annotations

from smelt.callbacks.running_average import RunningAverage, running_average
from smelt.callbacks.trainer import MergeCheckpointsCallback, RunningAverageCallback
from smelt.public_names import dir_of

__all__ = ["MergeCheckpointsCallback", "RunningAverage", "RunningAverageCallback", "running_average"]

__dir__ = dir_of(__name__)
