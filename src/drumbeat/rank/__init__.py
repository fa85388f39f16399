"""Functions for a rank's own script: `drumbeat.log`. Standard library only, and nothing else of drumbeat."""
