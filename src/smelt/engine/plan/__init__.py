"""The plan of a merge: every output tensor and what it is made of, or what is wrong, all that a check finds at once.

The plan follows from headers and configs. Some checks read weights too: towers and bases that must be equal, a head
that is tied, a sample that tells whether the base is the right one.
"""
