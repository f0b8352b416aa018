"""The command line. Imports as little as each command needs: its start-up time is a feature."""
