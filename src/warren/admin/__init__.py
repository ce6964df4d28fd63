"""What operators see and do of a running node: the service, and the ways to reach it.

`service` holds the operations, each a function that is authorised before it does anything and gives
typed rows or refuses; `control` serves them to the commands over the cluster listener; `cli` is the
command `warren`, which shows answers. Further ways in, such as HTTP, stand beside them;
`printable` makes hostile texts harmless where a terminal or the log shows them. What comes in is a
node and the port `service.host`. The server never does: it wires a node's service, and this room
does not know it. No way in changes a node but through the service.
"""
