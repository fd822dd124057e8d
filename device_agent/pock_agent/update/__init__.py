"""How the agent replaces itself by a newer file, and returns to the one before when that was a mistake. Open `updater`
first; `launcher` is a program of its own, which starts whichever file is the present one."""
