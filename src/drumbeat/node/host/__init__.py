"""What a machine does for gangs: agents started, looked after, ended. Standard library only, for it runs anywhere."""
