"""Tells the service what data stays on this device, whenever it has another listing than this."""

from __future__ import annotations

from pock_agent.connection.service import Service
from pock_agent.disk.local_data import LocalData, digest_of
from pock_agent.values import JsonObject


class LocalDataTopic:
    """What heartbeats say of local data: a digest; the listing goes out only where the service asks for it."""

    def __init__(self, data: LocalData, service: Service) -> None:
        self._data, self._service = data, service
        self._listing: list[JsonObject] = []

    def say(self) -> JsonObject:
        """Which listing is that of this device."""
        self._listing = self._data.listing()
        return {"data": digest_of(self._listing)}

    def hear(self, answer: JsonObject) -> None:
        """Send the listing if the service has another one."""
        if answer.get("wants_data") is True:
            self._service.tell_data(self._listing, digest_of(self._listing))
