"""The vector machine on a CPU: one pass from stored bytes to stored bytes, without torch.

machine.c      a small vector machine, compiled when Smelt is installed
machine.py     loads it and runs programs on it; where there is none, merges run in torch as the methods define them
operations.py  its operations, the registers that each touches, and shorter lists of them
program.py     a list of them, written register by register
rules.py       what each stage is in these operations; the torch functions in `methods` stay the definition
rule_table.py  the table of rules, and which items can be run so
fold_pass.py   what folds gather (`ops.fold`), in these operations; what methods need to know of each row
template.py    programs that many tensors share
backend.py     how spans are worked on
"""

from __future__ import annotations
