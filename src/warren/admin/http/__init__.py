"""RabbitMQ's HTTP API: what comes over HTTP becomes calls of `admin.service`, and answers JSON.

`listener` has the sockets, `application` what is done with every request, and `resources` one
module for each kind of thing there is. Rights are the service's business. What is here is imported
only when a node listens for HTTP.
"""
