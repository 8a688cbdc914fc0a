"""Records as objects: numpy views over stored columns, encode, decode, queries."""
