"""A model that is sent in: received, unpacked, and checked by its headers and configs before anything loads."""
