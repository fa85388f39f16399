"""Lets a program on one node of a job run commands on the other nodes, without sshd: replacements of ssh and pdsh.

`ssh_stand_in` is called as ssh, `pdsh_stand_in` as pdsh. For a node of the job they call the `command_server` there, a
process of the round that the node's supervisor holds with all its children; `node_addresses` has its address.
"""
