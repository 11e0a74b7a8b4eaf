"""Reads attention: which part is asked for, what observers keep of it, and the views of their answers."""
