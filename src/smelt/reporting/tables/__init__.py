"""Tables as data (cells, lines, grids, sheets), and printed: Markdown, CSV, LaTeX, the terminal."""
