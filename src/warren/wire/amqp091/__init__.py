"""AMQP 0-9-1 on the wire: generated methods, field tables, properties, frames."""
