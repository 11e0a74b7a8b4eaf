"""The command line: finds a command, runs it, and takes its answer to stdout and files."""
