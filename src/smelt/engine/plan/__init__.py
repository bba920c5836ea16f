"""The plan of a merge, from headers alone: every output tensor and what it is made of, or every fault at once."""
