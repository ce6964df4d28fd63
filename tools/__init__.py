"""What is done with a checkout, apart from building and testing the package itself."""
