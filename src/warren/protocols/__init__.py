"""One package a protocol: bytes of a connection to requests, and results back to bytes.

`client` is what the node asks of any client's connection, `broker` what a connection asks of the
node; all else that clients want goes through `warren.vhost`. Each protocol maps refusals to its own
codes in one module. What one protocol is like never matters outside its package.
"""
