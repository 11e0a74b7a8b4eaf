"""One gate that every text from outside passes before it reaches a screen or a picture."""
