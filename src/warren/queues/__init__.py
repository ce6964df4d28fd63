"""Queue types behind one interface, and the FIFO machine they share."""
