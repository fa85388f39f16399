"""The command line: parse, call, print. No decision about a job is made here."""
