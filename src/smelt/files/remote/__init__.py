"""Files that lie on servers: asked for by ranges, again where an answer fails, and refused when they change."""
