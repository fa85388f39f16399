"""How a program on one node of a job has a command run on another, without sshd: what stands in for ssh and pdsh.

`shell` is called as ssh, `pdsh` as pdsh. For a node of the job they ask the `door` there, a process of the round that
the node's keeper holds, and with it all that it starts; what they need to know lies in a folder (`place`).
"""
