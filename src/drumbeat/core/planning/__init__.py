"""From a job file to a plan: rank table, environments, inputs, outputs, refusals. Pure."""
