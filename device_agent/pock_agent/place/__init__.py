"""Where jobs run: this machine, or one that it reaches. Open `place` first. Knows no jobs and no service."""
