"""The database's schema over time; tables are made here and nowhere else."""
