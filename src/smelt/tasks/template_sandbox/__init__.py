"""Templates of tasks and of chats, rendered apart: strangers wrote them, and a template can loop for ever.

`rendering.py` hands a template and its values to a process of its own (`inside.py`), with limits of time, memory and
text. Inside, jinja2's sandbox keeps it away from Python. A limit of time inside one process would not do: repeating a
text, raising a number to a power or printing a list that holds itself are single steps that nothing interrupts.
"""
