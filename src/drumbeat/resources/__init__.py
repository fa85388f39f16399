"""The kinds of named things: one record each, from which the server, the client and the command line make the rest."""
