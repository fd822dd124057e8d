"""How close the estimated costs of schemes are to planned and measured ones. `python -m benchmarks.scheme_costs`."""
