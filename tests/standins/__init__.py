"""Stand-ins for the outside that tests cannot have: compiled or executable, never patched in."""
