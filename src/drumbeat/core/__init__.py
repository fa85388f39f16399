"""The decisions, as pure functions: no sockets, no files, no clock but the one that is passed in.

states     the table: states, reasons, what each reason leads to
job        what the server knows of a job
events     what can happen to it, and what is to be done about it
machine    decide(job, event, now): the whole life of a job
directive  what an agent should be doing now
plan       from what a person wrote to the plan that the agents carry out
placement  who starts next, and why the others wait
recovery   what follows a failure
blame      who failed first
"""
