"""The losses of a recipe: the `kinds` that have a name, a user's `own`, `reading` both from a recipe, and `binding` the
user's own to a model. Open `kinds` first."""
