"""The history of a build or run, stored and streamed."""
