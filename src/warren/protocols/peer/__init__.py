"""Links between the nodes of a cluster: handshake and framing, without any I/O."""
