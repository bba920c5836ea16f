"""Models of the zoo that do not lie there whole: made once in the cache from other packages."""
