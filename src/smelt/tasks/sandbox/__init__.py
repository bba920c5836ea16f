"""The sandbox: runs a program that a model wrote, in a process that can do little and is ended in time.

    outcome = run(code, seconds=5)                           # ProgramOutcome(status, stdout, stderr, seconds)
    outcome = judge(code, "assert double(2) == 4")           # its status is the verdict

The kernel refuses what the program has no business with (Landlock and seccomp on Linux). The verdict is given by
another process, which alone knows the tests. `protection.py` says what this system offers; where something is missing,
the first call says so on stderr before it runs anything.
"""
