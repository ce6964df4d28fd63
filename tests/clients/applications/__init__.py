"""Applications as users write them, which tests run as processes of their own."""
