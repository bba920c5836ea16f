"""Drawings: plain data in, inline SVG out. Colours are CSS variables, so a drawing follows the page's theme."""
