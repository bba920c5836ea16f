"""The vector machine on a GPU: its programs (`engine/run/cpu/program.py`) as generated kernels.

codegen.py          a program as lines of Python, and as a torch function with one kernel for each line
torch_ops.py        what the lines mean in torch
kernel.py           the same lines as one Triton kernel, if that gives the same bits
triton_ops.py       what the lines mean in Triton; triton_division.py: division
launch.py           runs a program on tensors and gathers what its folds need
stream.py           memory on both sides of the link, and streams
backend.py          how spans are worked on
"""
