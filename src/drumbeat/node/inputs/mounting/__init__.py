"""Inputs that aren't fetched: used in place, or mounted, so that each read of a rank goes to the store.

`mount_holder` is the process that serves one input as WebDAV on loopback, which rclone shows as a folder. It stands
apart from the agent, so that an agent that dies takes no mount along; `mounts` is the agent's side of it.
"""
