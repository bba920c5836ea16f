"""Files that lie on a server: asked for by ranges, again where an answer fails, and only as long as they do not change."""
