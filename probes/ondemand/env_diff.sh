# Prints what decides how a training process of this node talks to the others: versions of driver, kernel and NCCL, and of
# its environment the variables that are named here, no other. It only reads.
begin "" environ
echo "host driver $(sed -n 's/^NVRM version:.* \([0-9][0-9.]*[0-9]\)  .*/\1/p' /proc/driver/nvidia/version 2>/dev/null)"
echo "host kernel $(uname -r)"
for file in /usr/lib/x86_64-linux-gnu/libnccl.so.2 /usr/lib/aarch64-linux-gnu/libnccl.so.2 /usr/lib64/libnccl.so.2; do
  [ -e "$file" ] && echo "host nccl $(readlink "$file" | sed 's/.*\.so\.//')"
done
for file in /etc/nccl.conf; do
  [ -r "$file" ] && sed -n 's/^ *\(NCCL_[A-Z0-9_]\{1,40\} *= *[!-~]\{1,200\}\).*/file \1/p' "$file"
done
for file in /proc/[0-9]*/environ; do
  rank=$(tr '\0' '\n' <"$file" 2>/dev/null | sed -n 's/^\(RANK\|SLURM_PROCID\|OMPI_COMM_WORLD_RANK\)=\([0-9]\{1,7\}\)$/\2/p' | head -n 1)
  [ -n "$rank" ] || continue
  pid=$(echo "$file" | cut -d / -f 3)
  ls -l "/proc/$pid/fd" 2>/dev/null | grep -q '/dev/nvidia[0-9]' || continue
  tr '\0' '\n' <"$file" 2>/dev/null |
    grep -E '^(NCCL_[A-Z0-9_]+|TORCH_NCCL_[A-Z0-9_]+|TORCH_FR_[A-Z0-9_]+|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_MAX_CONNECTIONS|(GLOO|TP)_SOCKET_IFNAME|UCX_(TLS|NET_DEVICES)|FI_PROVIDER|OMP_NUM_THREADS|WORLD_SIZE|SLURM_JOB_ID)=' |
    cut -c 1-300 | sort | sed "s/^/rank $rank /"
done
end 0
