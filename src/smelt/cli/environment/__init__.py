"""Commands about this machine and the command line itself."""
