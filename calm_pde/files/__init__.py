"""Writing that never leaves half a file, and folders that are verified before use."""
