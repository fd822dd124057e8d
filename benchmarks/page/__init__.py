"""How light the dashboard is: bytes, frames and processor time in a real browser."""
