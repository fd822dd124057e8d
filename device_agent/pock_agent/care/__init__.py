"""What an operator asks of an agent that is left alone: is all well here, and start with the machine."""
