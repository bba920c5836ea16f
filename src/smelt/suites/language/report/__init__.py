"""What a report says of a suite of language models: first words, tables and figures."""
