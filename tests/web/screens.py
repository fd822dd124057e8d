"""The screens on which views are looked at: each size and each colour scheme once, or all together with POCK_ALL=1."""

from typing import Any

import pytest

from tests.sweeps import ALL

SCREENS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 360, "height": 780}, "color_scheme": "dark", "has_touch": True},
}
if ALL:
    SCREENS |= {
        "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
        "light-phone": {**SCREENS["phone"], "color_scheme": "light"},
        "wide": {"viewport": {"width": 1920, "height": 1080}, "color_scheme": "light"},
    }
screens = pytest.mark.parametrize("context_options", SCREENS.values(), ids=SCREENS.keys())
