"""Where a merge goes: shards at their offsets, a journal, small files, a manifest, one rename."""
