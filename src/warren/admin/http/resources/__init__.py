"""The resources of the HTTP API, a module for each kind; thin: they parse, call and name fields."""
