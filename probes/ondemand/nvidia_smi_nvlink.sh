# Prints state, error counters and capabilities of the NVLinks of all GPUs, or of one. It only reads; no counter is set
# back.
need nvidia-smi
for what in -s -e -c; do
  if [ $# -gt 0 ]; then run "$tool" nvlink "$what" -i "$1"; else run "$tool" nvlink "$what"; fi
done
