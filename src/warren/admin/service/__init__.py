"""The operations of a node: each is one function, over whatever way it is asked for.

An operation has typed arguments, is authorised once, and answers with rows or refuses with an error
of `warren.errors`. What many queues cost is cut into slices. No sockets, no text for terminals, and
no words of one way in: those are the business of who asks.
"""
