"""The panels of the console, one a file: each a pure function to rows and a view that shows it."""
