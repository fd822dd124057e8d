"""Federated training of a small network over digits that are split unevenly, beside Flower on the same data.

python -m benchmarks.federated            20 agents, ten rounds, five seeds
python -m benchmarks.federated --quick    4 agents, two rounds, one seed
"""
