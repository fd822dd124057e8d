"""Settings that lie in files: under `POCK_SECRETS_DIR=/run/secrets`, `/run/secrets/pock_data_dir` sets `data_dir`.

Containers get their secrets as files, which neither `docker inspect` nor a process's environment shows.
"""

import difflib
import logging
import os
import stat
import warnings
from pathlib import Path
from typing import Any

from pydantic_settings import BaseSettings, SecretsSettingsSource, SettingsError

_LOG = logging.getLogger(__name__)
_MAX_BYTES = 64 << 10


class SecretFiles(SecretsSettingsSource):
    """A folder with one file a setting, named like its variable; white space around a value is not part of it."""

    def __init__(self, settings_cls: type[BaseSettings], folder: str) -> None:
        """An empty `folder` means that no setting lies in a file."""
        super().__init__(settings_cls, folder or None)
        self._prefix = str(self.config.get("env_prefix", ""))
        self._variable = f"{self._prefix}SECRETS_DIR"

    def __call__(self) -> dict[str, Any]:
        """The values that lie in files; raises SettingsError for a folder or a file that cannot be used."""
        if self.secrets_dir is None:
            return {}
        folder = Path(str(self.secrets_dir))
        try:
            self._check(folder)
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # a link that leads out of the folder, a folder for a file
                return super().__call__()
        except (OSError, ValueError, RuntimeError, UserWarning) as error:
            raise SettingsError(
                f"{self._variable} is {folder}, which cannot be used: {error.__cause__ or error}; "
                f"it is a folder with one file a setting, such as {self._prefix.lower()}database_url"
            ) from None

    def _check(self, folder: Path) -> None:
        """Raises ValueError or OSError; warns of what would work, but is probably not meant."""
        known = {f"{self._prefix}{name}".lower() for name in self.settings_cls.model_fields}
        for path in sorted(folder.iterdir()):
            name = path.name.lower()
            if not name.startswith(self._prefix.lower()):
                continue
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                meant = f"; is {near[0]} meant?" if near else ""
                _LOG.warning("%s names no setting and is not read%s", path, meant)
                continue
            status = path.stat()
            if stat.S_ISREG(status.st_mode) and not 0 < status.st_size <= _MAX_BYTES:
                raise ValueError(f"{path.name} has {status.st_size} bytes, where 1 to {_MAX_BYTES} are allowed")
            if not os.access(path, os.R_OK):
                raise PermissionError(f"{path.name} may not be read by this user (uid {os.geteuid()})")
            if status.st_mode & stat.S_IROTH:
                _LOG.warning("every user of this machine may read %s: take that away with chmod o-r", path)
