"""A stand-in for the Hugging Face Hub: a server on this machine that speaks its HTTP interface to the real client.

`contents.py` holds repositories (files by revision, hashes), `server.py` answers requests, `published/` fills it with
small models and data under public names and in public layouts. tests/conftest.py starts one for each test process and
points `HF_ENDPOINT` at it; the fixture `stand_in` gives it to a test.
"""

from stand_in_hub.contents import Contents, Repository
from stand_in_hub.server import StandInHub

__all__ = ["Contents", "Repository", "StandInHub"]
