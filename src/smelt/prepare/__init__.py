"""From a recipe to a merged model: data is looked at where a method needs it, then the engine merges."""
