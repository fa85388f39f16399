"""What a node keeps of the inputs of jobs: files by content, shared by all jobs and agents of this machine and user.

files.py: those that are whole. part.py: one that is being fetched; small.py: one that comes at once. room.py: who
needs what, and what makes way. tree.py: a job's input, made of links to them.
"""
