"""A machine's part in gangs: it starts, observes and ends agents. Standard library only, because it runs on any
machine.
"""
