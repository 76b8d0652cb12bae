# Prints the last hundred entries of the log that the board's management controller keeps: power, temperature, memory,
# PCIe. It only reads, and keeps the controller busy for a few seconds.
need ipmitool
must_root "$tool" sel elist last 100
