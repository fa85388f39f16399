"""What a node keeps of the inputs of jobs: files by content, shared by all jobs and agents of this machine and user.

`files` holds whole files, `partial_file` and `small_file` those that are being fetched; `eviction` says what makes way
for something new; `link_tree` lays out a job's input as links to them.
"""
