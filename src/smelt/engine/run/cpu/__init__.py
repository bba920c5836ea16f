"""The fused way to run a merge: one pass from stored bytes to stored bytes, on a CPU without torch.

machine.c    a small vector machine, compiled when Smelt is installed
library.py   finds it; where there is none, merges run in torch as the methods define them
operation.py its operations by name, and the registers that each touches
program.py   a list of them, written register by register, and how it is run on buffers
shorten.py   the same list with several operations in one, and fewer registers
rules.py     what each stage is in these operations; the torch functions in `merge` stay the definition
looks.py     what folds gather (`ops.fold`), in these operations
each_row.py  what methods that work row by row need to know of each
takes.py     which items can be run so
way.py       how their spans are

On a GPU the same programs run in torch:

written.py   a program as the source of a torch function
words.py     what its words mean, one kernel for each; traced.py: the same for torch.compile
compiled.py  such a function as one kernel, if that gives the same bits
tensors.py   runs a program on tensors
device.py    how spans are worked on there
"""

from __future__ import annotations
