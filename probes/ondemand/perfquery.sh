# Prints the extended counters of one InfiniBand port, asked from the port itself. It only reads; no counter is set
# back. It sends one management packet, for which /dev/infiniband/umad* must be readable.
need perfquery
run_root "$tool" -x -C "$1" -P "$2"
