"""Averaging while a model trains: a running average for any loop, and callbacks for transformers' Trainer.

trainer = Trainer(..., callbacks=[RunningAverageCallback(kind="ema", decay=0.999, out="averaged")])

with running_average(model, since=1000) as average:
for batch in batches:
...
average.update()
average.save("averaged")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smelt.callbacks.running_average import RunningAverage, running_average
from smelt.public_names import dir_of

if TYPE_CHECKING:
    from smelt.callbacks.trainer import MergeCheckpointsCallback, RunningAverageCallback

__all__ = ["MergeCheckpointsCallback", "RunningAverage", "RunningAverageCallback", "running_average"]


def __getattr__(name: str) -> Any:
    """The callbacks load when they are asked for: a plain loop needs no transformers."""
    if name not in ("MergeCheckpointsCallback", "RunningAverageCallback"):
        raise AttributeError(f"module 'smelt.callbacks' has no attribute {name!r}")
    from smelt.callbacks import trainer

    return getattr(trainer, name)


__dir__ = dir_of(__name__)
