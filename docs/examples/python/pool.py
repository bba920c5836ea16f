"""A pool: an ordered set of named models and their base, open for the time of a `with`."""

import smelt

with smelt.ModelPool.open("pool.yaml") as pool:
    assert list(pool.models) == ["photos", "digits"]
    report = pool.compatibility()

assert report.ok
assert all(fit.same for fit in report.models)
