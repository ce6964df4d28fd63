"""Warren: a message broker that speaks RabbitMQ's protocols and obeys its rules."""
