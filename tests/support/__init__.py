"""What the tests share: a real broker in a process of its own, and the record of proven rules."""
