"""The command `warren`: a file for each group of commands.

A command reads its words, asks a running node, and shows the answer as text or JSON. What a command
may do, and what it means, is decided by the node that is asked: no operation is carried out here,
and neither the node nor the service comes in, but for the shapes of what is shown.
"""
