"""The commands: one file for each family. Each parses, calls the client and prints."""
