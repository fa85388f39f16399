"""The data that crosses processes: plain dataclasses, standard library only.

Here live the shapes that the server, the agent, the supervisor and the client say to each other, and the errors
they raise. Nothing here reads a file, opens a socket or knows a framework.
"""
