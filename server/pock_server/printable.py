"""Texts of strangers in one line."""


def printable(text: str) -> str:
    """The text with U+FFFD for what would not be shown: controls, line ends, halves of surrogate pairs."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
