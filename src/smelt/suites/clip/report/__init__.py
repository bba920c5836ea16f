"""What a report says of a suite of CLIP models: first words, tables and figures."""
