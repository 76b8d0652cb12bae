# Prints which processes take the processors, which hang in the kernel, and at which clock the cores run. One look each:
# it only reads.
need top
run sh -c '"$1" -b -n 1 -w 132 | head -n 30' sh "$tool"
run sh -c 'ps -eo pid,stat,wchan:32,etimes,user,comm | grep -E "^ *PID|^ *[0-9]+ D" | head -n 40' sh
run sh -c 'for each in governor cur_freq max_freq; do cat /sys/devices/system/cpu/cpufreq/policy*/scaling_$each | sort | uniq -c | sort -rn | sed "s/^/scaling_$each /" | head -n 8; done' sh
