"""The agent's life: it enrols this device once, then waits for work and hands each job over. Open `agent` first."""
