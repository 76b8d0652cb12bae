# Prints for each NFS mount how many requests a second it made within three seconds, and how long they were queued on this
# client and under way to the server; and what Lustre counts of its servers. It only reads what
# the kernel counts.
counts=/proc/self/mountstats
counted() { grep -E '^device .* fstype nfs|^[[:space:]]+(age|xprt|READ|WRITE):' "$counts"; }
begin "" nfsiostat 3
{ counted; sleep 3; echo later; counted; } | awk '
  /^device/ { where = $2 " mounted on " $5; next }
  /^later/ { second = 1; next }
  $1 == "age:" && second { lasted[where] = $2 - begun[where]; next }
  $1 == "age:" { begun[where] = $2; order[++mounts] = where; next }
  $1 == "xprt:" { sent[second + 0, where] += $8; waited[second + 0, where] += $12; next }
  { op = tolower($1); for (i = 2; i <= 9; i++) value[second + 0, where, op, i] = $i }
  function grown(i) { return value[1, where, op, i] - value[0, where, op, i] }
  END {
    for (mount = 1; mount <= mounts; mount++) {
      where = order[mount]
      spent = lasted[where] > 0 ? lasted[where] : 3
      asked = sent[1, where] - sent[0, where]
      printf "%s:\n\n           ops/s       rpc bklog\n", where
      printf "%16.3f%16.3f\n\n", asked / spent, (asked > 0 ? (waited[1, where] - waited[0, where]) / asked : 0)
      for (number = 1; number <= 2; number++) {
        op = number == 1 ? "read:" : "write:"
        count = grown(2); per = count > 0 ? count : 1; again = grown(3) - count
        sizes = (grown(5) + grown(6)) / 1024
        printf "%-16s ops/s            kB/s           kB/op         retrans", op
        print "    avg RTT (ms)    avg exe (ms)  avg queue (ms)"
        printf "%22.3f%16.3f%16.3f%9d (%.1f%%)", count / spent, sizes / spent, sizes / per, again, 100 * again / per
        printf "%16.3f%16.3f%16.3f\n", grown(8) / per, grown(9) / per, grown(7) / per
      }
      print ""
    }
  }'
end $?
if command -v lctl >/dev/null 2>&1; then run lctl get_param 'osc.*.import'; fi
