"""What the agent finds out about the machine that it runs on. Open `facts` first."""
