# Reads the kernel's log for the probe in sh, with dmesg or journalctl.

matters='NVRM|nvidia|SXid|AER[: ]|pcieport|PCIe Bus Error|mlx[45]|infiniband|[^a-z]ib_|[^a-z]ib[0-9]|nvme|I/O error|EXT4-fs|XFS|[^a-z]ata[0-9]|[^a-z]oom|Out of memory|Killed process|mce:|EDAC|Hardware Error|blocked for more than|soft lockup|hard LOCKUP|BUG|segfault|Call Trace|rcu.*stall|NETDEV WATCHDOG|(nfs|lustre|lnet).*(not responding|timed out)|thermal|throttl'

choose_log() {
  log=
  log_note=
  if dmesg -r >/dev/null; then
    log=dmesg
    return
  fi
  for journal in /run/log/journal/*/system.journal /var/log/journal/*/system.journal; do
    [ -r "$journal" ] && command -v journalctl >/dev/null && log=journal && return
  done
  log_note=unsupported
  [ -e /dev/kmsg ] && log_note=permission
}

read_log() {
  case $log in
  dmesg) dmesg -r ;;
  journal) journalctl -k -o short-unix -n 500 --no-pager ;;
  esac | grep -i -E -e "$matters" | tail -n 200
}

# Prints the lines of the log that came since the time before, of the last 15 minutes at most.
report_log() {
  [ -n "$log" ] && [ $((now - log_read)) -ge 500 ] || return
  log_read=$now
  lines=$(read_log) fresh=
  [ "$lines" = "$log_seen" ] && return
  # Everything behind the last line of the time before; everything, when that is gone.
  last=${log_seen##*"$end_of_line"}
  case $end_of_line$lines$end_of_line in
  *"$end_of_line$last$end_of_line"*) fresh=$end_of_line$lines fresh=${fresh##*"$end_of_line$last"} ;;
  *) fresh=$end_of_line$lines ;;
  esac
  [ -n "$log_seen" ] || fresh=$lines
  log_seen=$lines
  since=$((${uptime%.*} - 900))
  [ $log = journal ] && since=$((${wall%.*} - 900))
  # Not a here-document: some shells write those to a file.
  IFS=$end_of_line
  set -f
  for line in $fresh; do
    stamp=${line#*"["}
    stamp=${stamp%%.*}
    stamp=${stamp##* }
    case $stamp in '' | *[!0-9]*) continue ;; esac
    [ "$stamp" -ge $since ] && put event "$log $line"
  done
  unset IFS
  set +f
}
