"""What this device believes: signed texts read strictly, and whose signatures count. Open `envelope` first."""
