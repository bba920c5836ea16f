smelt learn data/adamerging.yaml -o learned
smelt merge learned/recipe.yaml -o merged
