"""What a message is like, whatever protocol it came by, and how it lies in a record.

This is the one room that knows what stands where in a record. It reads and edits messages as bytes;
channels, queues, routes, and who publishes or consumes never come in. Codecs are in `wire`.
"""
