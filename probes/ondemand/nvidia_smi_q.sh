# Prints everything that the driver says of all GPUs, or of one. It only reads.
need nvidia-smi
if [ $# -gt 0 ]; then run "$tool" -q -i "$1"; else run "$tool" -q; fi
