"""Links between the nodes of a cluster: handshake and framing, without any I/O.

What is in a frame is for the node. Clients never come this way.
"""
