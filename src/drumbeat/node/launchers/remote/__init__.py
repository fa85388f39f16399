"""How a program on one node of a job has a command run on another, without sshd: what stands in for ssh and pdsh.

`ssh_stand_in` is called as ssh, `pdsh_stand_in` as pdsh. For a node of the job they ask the `command_server` there, a
process of the round that the node's supervisor holds, and with it all that it starts; the folder of `node_addresses`
says where it is.
"""
