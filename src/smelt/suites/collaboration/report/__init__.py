"""What a report says of merging beside ensembling: first words, tables and figures."""
