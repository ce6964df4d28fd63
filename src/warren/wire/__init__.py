"""Bytes to values and back: protocols' codecs, without any I/O.

What came over a wire comes in, and is checked for its form alone. Whether what it asks for may be,
and what it leads to, never matters here.
"""
