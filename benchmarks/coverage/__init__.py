"""Which models import, train and match PyTorch: the families that the tests know, or all of `transformers`."""
