"""Works that consist of runs, as the runs tell of them."""
