"""Chats: conversations as a model's own template lays them out, of which the assistant's answers are learned."""

from .chat import Chat
from .folder import ChatFolder, read_chat_folder
from .rendering import Bounds

__all__ = ["Bounds", "Chat", "ChatFolder", "read_chat_folder"]
