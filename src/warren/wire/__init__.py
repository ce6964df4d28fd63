"""Bytes to values and back: protocols' codecs, without any I/O."""
