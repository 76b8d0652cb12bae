# Prints link settings, statistics and module readings of one network interface. It only reads.
need ethtool
run "$tool" "$1"
run "$tool" -S "$1"
run_root "$tool" -m "$1"
