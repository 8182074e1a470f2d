"""What should somebody look at? Pure: figures in, findings and lists out."""
