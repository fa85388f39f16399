"""Tables and pages in the terminal: one file for each kind of object."""
