"""What the agent keeps on disk, and how that survives a power cut. Open `directory` first; it names every file."""
