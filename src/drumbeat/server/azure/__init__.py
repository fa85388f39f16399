"""The API of Azure ML, as far as its own clients need it: docs/azure.md."""
