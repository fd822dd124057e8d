"""Settings whose values lie in files: `POCK_STORE_SECRET_KEY_FILE=/run/secrets/key` sets `store_secret_key`.

Containers get their secrets as files, which neither `docker inspect` nor a child's environment shows.
"""

import os
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

_MAX_BYTES = 64 << 10


class FileSettingsSource(PydanticBaseSettingsSource):
    """Reads the file that `<PREFIX><NAME>_FILE` names, without the line's end."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """The file's text, or None; raises ValueError if the file cannot be read."""
        variable = f"{self.config.get('env_prefix', '')}{field_name}_FILE".upper()
        path = os.environ.get(variable)
        if not path:
            return None, field_name, False
        try:
            with Path(path).open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
            if len(data) > _MAX_BYTES:
                raise ValueError(f"it has more than {_MAX_BYTES} bytes")
            return data.decode().rstrip("\r\n"), field_name, False
        except (OSError, ValueError) as error:
            raise ValueError(f"{variable} names {path}, which cannot be used: {error}") from None

    def __call__(self) -> dict[str, Any]:
        """The values of all settings that lie in files."""
        found = {}
        for name, field in self.settings_cls.model_fields.items():
            value, key, is_complex = self.get_field_value(field, name)
            if value is not None:
                found[key] = self.prepare_field_value(name, field, value, is_complex)
        return found
