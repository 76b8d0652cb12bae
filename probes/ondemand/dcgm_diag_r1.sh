# Runs DCGM's short diagnostic on all GPUs: deployment, libraries, permissions, persistence, page retirement, and on
# newer versions a short memory check. It allocates on every GPU, so it is refused while a job computes there.
need dcgmi
run "$tool" diag -r 1 -j
