"""The packet: six memory-mappable files that hold everything a render needs of an anchor."""
