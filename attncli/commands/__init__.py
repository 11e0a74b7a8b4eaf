"""The commands, one file each. A command's file has a function with the file's name; Typer reads its signature."""
