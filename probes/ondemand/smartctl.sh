# Prints what one disk says of its health: attributes, error log, self-tests of before. It starts no test.
need smartctl
must_root "$tool" -j -a "/dev/$1"
