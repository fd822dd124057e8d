"""Federated training: rounds of runs on devices that keep their data, whose updates make the weights of the next round.

Open `rounds` first.
"""
