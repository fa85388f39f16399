"""What a rank's own script may call: `drumbeat.log`. Standard library only, and nothing else of drumbeat."""
