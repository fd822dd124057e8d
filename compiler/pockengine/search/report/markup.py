"""HTML and SVG elements as text. Whatever is no element is escaped: names are a model's, which comes from anywhere."""

from __future__ import annotations

from html import escape


class Markup(str):
    """Text that is markup already: made by `element` alone, or written in this program."""

    __slots__ = ()


_EMPTY = frozenset({"br", "meta", "circle", "line", "path", "rect"})
"""Elements without contents."""


def element(name: str, /, *contents: str | None, **attributes: str | float | None) -> Markup:
    """`<name …>contents</name>`. Attributes that are None are left out; `class_` stands for `class`, and `_` in other
    names for `-`."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{plain(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        return Markup(f"<{name}{given}>" if name in ("br", "meta") else f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{joined(*contents)}</{name}>")


def joined(*contents: str | None) -> Markup:
    """Elements and texts, one behind the other."""
    return Markup("".join(one if isinstance(one, Markup) else plain(one) for one in contents if one is not None))


def plain(text: str) -> str:
    """Escaped; what cannot be printed, such as marks that turn the direction of writing, becomes U+FFFD."""
    return escape("".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text), quote=True)


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
