# Prints how GPUs and adapters are connected with each other, with CPU and NUMA affinity. It only reads.
need nvidia-smi
run "$tool" topo -m
