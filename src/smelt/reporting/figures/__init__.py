"""Figures as data, ready to draw: heat maps, line charts, rankings, costs."""
