"""How results look to people: as text, and as HTML in a notebook. One way for all of them.

A result says what it shows in blocks (`blocks.py`); `text.py` and `html.py` write these down, and `shown.py` has the
class from which a result gets `str`, and what notebooks ask for. No result is known here.
"""
