"""A search as one self-contained page: why each parameter is in or out, beside what else could be chosen."""

from .page import report_page

__all__ = ["report_page"]
