"""Inputs that are mounted: each read of a rank goes to the store, by links that the server signs.

tree.py: the input as folders. reading.py: its bytes. dav.py: both, as WebDAV on loopback, which `rclone mount` shows as
a folder. holder.py: the process that does this for one input, apart from the agent, so that an agent that dies takes
no mount along. mounts.py: the agent's side of it. clearing.py: nothing of it is left. rates.py: how fast it is.
"""
