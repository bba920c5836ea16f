"""From a recipe to a merged model or its rows: data is looked at where a method needs it, then the engine merges."""
