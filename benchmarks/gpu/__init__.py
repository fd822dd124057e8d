"""What training steps take on a GPU: estimates so far, as none was there to measure on."""
