"""A phone on a cable: all goes through the `adb` program. Open `phone` first. Loaded only where one is enrolled."""
