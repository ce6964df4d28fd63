"""The operations of a node: whoever asks, and over whatever way, each is one function here.

An operation has typed arguments, is authorised once, and answers with rows or refuses with an error
of `warren.errors`. What many queues cost is cut into slices. No sockets, no text for terminals, and
no words of one way in: those are the business of who asks.
"""
