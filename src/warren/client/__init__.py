"""A small fast AMQP 0-9-1 client on `warren.wire`, for tools and Spark."""
