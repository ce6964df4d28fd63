"""Messages that are stored as the frames of an AMQP 0-9-1 publish."""
