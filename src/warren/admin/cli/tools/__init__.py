"""RabbitMQ's commands: `rabbitmqctl` and the tools beside it, on a running node of Warren.

Words, output, messages and exit codes are those of RabbitMQ 4.3, so that scripts pass; a file for
each group of commands, each of which adds its own to `command.COMMANDS`. What a command does is
decided by the node, whose operations it asks for.
"""
