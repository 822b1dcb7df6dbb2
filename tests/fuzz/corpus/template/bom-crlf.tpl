@ local a
b${x}
