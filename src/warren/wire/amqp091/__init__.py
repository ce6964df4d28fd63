"""AMQP 0-9-1 on the wire: generated methods, field tables, properties, frames, and its two errors.

Field tables are also how arguments and headers are kept and stored, whatever protocol they came by.
"""
