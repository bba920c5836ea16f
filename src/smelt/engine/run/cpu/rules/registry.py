"""What stages are in operations of the vector machine.

The torch functions in `smelt.merge` are the definition; a rule does the same sums in the same order, so that both give
the same numbers (tests/fused). A stage without a rule, or with options that its rule does not take, runs in torch.
"""

from __future__ import annotations

from collections.abc import Mapping

from smelt.engine.run.cpu.rules import combine, elect, prune, standing_out
from smelt.engine.run.cpu.rules.rule import At, Rule

__all__ = ["RULES", "At", "Rule"]

RULES: Mapping[str, Rule] = {
    "average": Rule(combine.average),
    "task_arithmetic": Rule(combine.task_arithmetic),
    "slerp": Rule(combine.combination),
    "nuslerp": Rule(combine.nuslerp, takes=combine.not_over_columns, by_row=combine.weights_of_rows),
    "multislerp": Rule(combine.combination),
    "karcher": Rule(combine.combination),
    "model_stock": Rule(combine.model_stock, by_row=combine.steps_of_rows),
    "passthrough": Rule(combine.passthrough),
    "nearswap": Rule(combine.nearswap),
    "ram": Rule(combine.ram),
    "trim": Rule(prune.and_restored(prune.trimmed), prunes=prune.trimmed),
    "breadcrumbs": Rule(prune.and_restored(prune.band), prunes=prune.band),
    "dare": Rule(prune.dare, prunes=prune.drawn, draws=True),
    "della": Rule(prune.della, masks=prune.ranked, draws=True),
    "ties": Rule(elect.ties),
    "arcee_fusion": Rule(standing_out.arcee_fusion, ranks=standing_out.important, measures=standing_out.divergences),
    "sce": Rule(elect.sce, ranks=elect.variance, prunes=elect.selected),
}
