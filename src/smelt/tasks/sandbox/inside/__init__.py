"""What runs inside the sandbox's processes. Nothing but the standard library: `python -s -S -P -m inside`, no Smelt.

    __main__   takes its order, confines itself, then runs a program or the tests that judge one
    confine    limits, and the layers below in their order
    landlock, seccomp, kernel    what the kernel is asked to refuse
    guard      what Python itself refuses, where the kernel cannot
    plain, channel    data that may cross between a program and its judge, and the pipes it crosses by
    program, judge    the two ends of a channel

Modules here import one another by relative names, because the child knows this folder as `inside`. They do without
`typing`, `dataclasses` and the like, which would take longer to load than everything else does.
"""
