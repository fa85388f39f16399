"""The output of ranks: read from their files, checked, and sent to the server with offsets."""
