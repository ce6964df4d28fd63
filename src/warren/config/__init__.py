"""What a node is started with: the configuration file, its data directory's identity, TLS files.

The server and the commands both read it: a command finds out here which node it is to ask. Files
and the environment come in; the running node never does.
"""
