# Prints state, rate, LID and firmware of every InfiniBand port. It only reads what the kernel knows.
need ibstat
run "$tool"
