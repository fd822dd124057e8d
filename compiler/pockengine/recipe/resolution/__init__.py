"""A recipe against one model: its `layers`, and the `scheme` that says what of each parameter is trained. Open `scheme`
first."""
