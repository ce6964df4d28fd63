"""AMQP 0-9-1 connections and channels.

Frames come in and go out. Methods become requests of a vhost or commands of a queue, refusals
become close methods (`refusals`). Who may do what is not decided here.
"""
