"""Public functions that say what is there. Nothing in this room merges, measures or changes anything.

inspect                      one model, from its headers and small files alone
list_methods, list_models    what Smelt and its zoo have
check_models                 whether models fit each other
verify                       whether a folder is what its manifest says
"""
