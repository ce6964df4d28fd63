"""What lies in the data directory of a node that does not run, or in a copy of one.

A node's own recovery reads it, over a view of the disk in which whatever it would change stays in
memory: so it is read as a start would read it, and nothing on disk is touched.
"""
