"""The live view of GPUs: textual stands in this package alone, and is loaded only when a live view is shown."""
