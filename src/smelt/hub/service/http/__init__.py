"""What a client may do before its request is answered: rates, sizes, headers, stalled connections."""
