"""The zoo: small real models in a package of their own, and how those are made that do not lie there whole."""
