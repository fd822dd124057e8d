"""Names of models, datasets, recipes and builds: their versions, their tags, and how people refer to them."""
