"""Who may call: tokens, allowed hosts, certificates, the listeners for agents."""
