"""What a report says of which models were worth merging: first words, tables and figures."""
