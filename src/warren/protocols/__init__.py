"""One package a client protocol; connections, channels and sessions."""
