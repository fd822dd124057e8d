"""Makes the weights of a round of what its devices sent, as `python -m pock_server.aggregation FOLDER`.

A process of its own, which has numpy and its folder: nothing of the service. Open `__main__`, then `task`.
"""
