"""Steps that leave entries of the changes out."""
