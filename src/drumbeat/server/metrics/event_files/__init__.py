"""TensorBoard's event files, read by TensorBoard's own loader in a process of its own; nothing else imports it."""
