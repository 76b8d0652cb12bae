# Prints the state of one adapter's port, its error counters and bit error rates, and what its module measures: received
# and sent light, temperature, voltage. It only reads.
need mlxlink mstlink
run_root "$tool" -d "$1" -p "$2" -m -c
