"""Questions about models that are answered at once: what is in one, what a recipe would take, how its graph looks."""
