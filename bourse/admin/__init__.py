"""The admin protocol as the console, the commands and the daemon speak it."""
