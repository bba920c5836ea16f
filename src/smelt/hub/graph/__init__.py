"""The semantic graph of a hub: nodes with words, pictures and hypernyms."""
