"""The web UI: pages for people, drawn on the server, beside the HTTP API on the same port.

A page asks what a client of the API would, in the process, and shows the answer; so every right and
every rule is the API's and the service's. `application` takes requests, `sessions` knows who is
logged in, `pages` has one module for each part of the UI, `templates` what it looks like as HTML,
and `static` the style sheet and the few scripts, which pages work without. What is here is imported
only when a node answers over HTTP.
"""
