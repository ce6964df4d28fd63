"""AMQP 0-9-1 connections and channels."""
