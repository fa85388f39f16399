"""Inputs that aren't fetched: used in place, or mounted, so that each read of a rank goes to the store.

ways.py: which of these an input has on this node. in_place.py: what is used where it lies. tree.py: a mounted input as
folders. reading.py: its bytes, by links that the server signs. dav.py: both, as WebDAV on loopback, which rclone shows
as a folder. mount_holder.py: the process that does this for one input, apart from the agent, so that an agent that dies
takes no mount along. mounts.py: the agent's side of it. clearing.py: nothing of it is left. rates.py: how fast it is.
direct.py: the links at which ranks write outputs themselves.
"""
