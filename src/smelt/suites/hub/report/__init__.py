"""What a report says of a suite of a hub: first words, tables and figures."""
