"""What everybody may ask and do about themselves: who am I, my keys, my sessions."""
