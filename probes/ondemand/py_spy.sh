# Prints where each training process of this node is in its program. A process counts as one when its environment says
# its rank. Each is held for some milliseconds while its stack is read; it only reads.
need py-spy
begin "" "$tool" dump
for file in /proc/[0-9]*/environ; do
  rank=$(tr '\0' '\n' <"$file" 2>/dev/null | sed -n 's/^\(RANK\|SLURM_PROCID\|OMPI_COMM_WORLD_RANK\)=\([0-9]\{1,7\}\)$/\2/p' | head -n 1)
  [ -n "$rank" ] || continue
  pid=$(echo "$file" | cut -d / -f 3)
  # What a rank starts has its environment too: only who has the GPU open is the rank itself.
  ls -l "/proc/$pid/fd" 2>/dev/null | grep -q '/dev/nvidia[0-9]' || continue
  echo "rank $rank"
  "$tool" dump --nonblocking --pid "$pid" </dev/null || failed=$?
  echo
done
end 0
