"""How results look where they are read: as text, as HTML in a notebook. It knows blocks (tables, facts), no result."""
