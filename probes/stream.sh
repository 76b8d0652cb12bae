# The probe for nodes without Python: prints the blocks that stethoscope/parse/shstream.py reads. $1 nonce, $2 tick.
# smi.sh and log.sh stand before it when it is sent.
#
# POSIX sh with cat-like tools only: grep, date, sleep; nothing is written to disk, no process per file. Three parts
# run beside each other and end together: the one that listens to the control line starts a beat and nvidia-smi, whose
# lines all go through one pipe to the one that reads the node and prints. What is read rarely comes later, as watch.sh,
# and runs beside them. STETHOSCOPE_ROOT as in stream.py.

LC_ALL=C PATH=${PATH:-/usr/bin}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
export LC_ALL PATH
exec 3<&0 </dev/null 2>/dev/null
nonce=$1 tick=${2:-2}
root=${STETHOSCOPE_ROOT:-}
cd "$root/" || exit 1
renice -n 10 -p $$ >/dev/null
sleep 0.01 || { case $tick in 0*) tick=1 ;; *) tick=${tick%.*} ;; esac; }
case $tick in *.*) part=${tick#*.}000 ;; *) part=000 ;; esac
tick_ms=$((${tick%.*} * 1000 + 1${part%"${part#???}"} - 1000))
end_of_line='
'

# ---------------------------------------------------------------- what writes into the pipe

beat() {
  nap=
  trap 'kill $nap; exit 0' HUP INT TERM
  while :; do
    sleep "$tick" &
    nap=$!
    wait $nap
    echo @beat || exit 0
  done
}

leave() {
  trap '' HUP INT TERM
  kill $beat_pid $smi_pid
  [ -z "$watch_pid" ] || end_watch
  echo "@${1:-leave}"
  # Who reads the node may wait for a file for ever: the first process, if it is still there, then ends without it.
  exec 5>&-
  sleep 1 3<&- >/dev/null
  [ -z "$watch_pid" ] || finish_watch
  read -r line </proc/self/stat
  set -- ${line##*) }
  [ "$2" = $$ ] && kill $$
  exit 0
}

listen() {
  smi 3<&- 5>&- &
  smi_pid=$!
  beat 3<&- 5>&- &
  beat_pid=$! watch_pid=
  trap leave HUP INT TERM
  trap '' PIPE
  while IFS= read -r line <&3; do
    case $line in
    *'"stop"'*) leave stop ;;
    *'"full"'*)
      echo @beat || break
      [ -z "$watch_pid" ] || kill -USR1 $watch_pid
      ;;
    *'"watch"'*)
      count=${line#*'"bytes":'}
      script=$(dd bs=1 count="${count%%[!0-9]*}" <&3 5>&-)
      [ -z "$watch_pid" ] || continue
      eval "$script"
      # Until it listens to that itself, it must not end by it.
      trap '' USR1
      : | watch 3<&- &
      watch_pid=$!
      ;;
    esac
  done
  leave
}

# ---------------------------------------------------------------- what reads the node and prints

# Sets `now` to centiseconds and `uptime` to seconds since boot.
look_at_clock() {
  read -r uptime rest </proc/uptime
  now=${uptime%.*}${uptime#*.}
}

look_at_wall() {
  wall=$(date +%s.%N)
  case $wall in *[!0-9.]* | *.) wall=$(date +%s) ;; esac
}

# Prints one block: its kind, its lines. The next number goes from hand to hand between those who print.
put() {
  if [ -n "$shared" ]; then
    IFS=' ' read -r next word <&6
    seq=${next:-$seq}
  fi
  printf '@%s %s %s %s\n%s\n@end %s\n' "$1" $seq "$uptime" "$wall" "$2" $seq || exit 0
  seq=$((seq + 1))
  [ -z "$shared" ] || echo "$seq $state" >&6
}

# Shares the number with the process $1, which has a pipe for it.
share() {
  (: 6<>"/proc/$1/fd/6") || return
  exec 6<>"/proc/$1/fd/6"
  shared=1
  echo "$seq $state" >&6
}

# Sets `watch` to what is being read for too long of what is read rarely, in steps of 10 s.
judge_watch() {
  watch=
  [ -n "$reading" ] && [ $((now - reading_since)) -gt $((${reading#* } * 100)) ] || return
  watch="hung: ${reading% *} for $(((now - reading_since) / 1000 * 10)) s"
}

# Sets `ports`, a line each, and `port_files` when the ports are others than before.
look_at_ports() {
  set -- sys/class/infiniband/*/ports/[0-9]*
  [ "$*" = "$ports_seen" ] && return
  ports_seen=$* ports= port_files=
  for place; do
    device=${place#sys/class/infiniband/}
    device=${device%%/*}
    number=${place##*/}
    case $device$number in *[!A-Za-z0-9_.-]*) continue ;; esac
    [ -d "$place" ] || continue
    layer= netdev= first=
    read -r layer <"$place/link_layer"
    base=sys/class/infiniband/$device/device
    for net in "$base"/net/*; do
      [ -d "$net" ] || continue
      first=${first:-${net##*/}}
      read -r dev_port <"$net/dev_port" && [ "$dev_port" = $((number - 1)) ] && netdev=${netdev:-${net##*/}}
    done
    pci=$(cd -P "$base" && pwd -P)
    ports="$ports$device $number ${pci##*/} ${netdev:-${first:--}} $layer$end_of_line"
    for name in state phys_state rate; do port_files="$port_files $device/ports/$number/$name"; done
    for name in port_xmit_data port_rcv_data symbol_error link_error_recovery link_downed port_rcv_errors \
      port_rcv_remote_physical_errors local_link_integrity_errors excessive_buffer_overrun_errors \
      port_xmit_discards port_xmit_wait VL15_dropped port_rcv_switch_relay_errors; do
      port_files="$port_files $device/ports/$number/counters/$name"
    done
    for name in out_of_buffer out_of_sequence packet_seq_err local_ack_timeout_err rnr_nak_retry_err \
      req_cqe_error roce_slow_restart implied_nak_seq_err np_cnp_sent rp_cnp_handled; do
      port_files="$port_files $device/ports/$number/hw_counters/$name"
    done
  done
}

# Sets `pci_gpus` to the number of NVIDIA 3D or VGA controllers on the bus when the devices are others than before.
look_at_pci() {
  set -- sys/bus/pci/devices/*
  [ "$*" = "$pci_seen" ] && return
  pci_seen=$* pci_gpus=0
  if [ ! -d sys/bus/pci/devices ]; then
    pci_gpus=unsupported
  elif [ ! -r sys/bus/pci/devices ]; then
    pci_gpus=permission
  fi
  for place; do
    read -r vendor <"$place/vendor" && [ "$vendor" = 0x10de ] && read -r class <"$place/class" || continue
    case $class in 0x0302* | 0x0300*) pci_gpus=$((pci_gpus + 1)) ;; esac
  done
}

# Takes one line of nvidia-smi: a row of values, or what it has to say.
take_row() {
  case $1 in
  [0-9]*,*) index=${1%%,*} ;;
  *) said=${said:-$1} && return ;;
  esac
  case $index in *[!0-9]* | ????*) said=${said:-$1} && return ;; esac
  if [ "$index" -le "$row_index" ]; then
    whole=$rows whole_count=$row_count rows= row_count=0
    # A GPU that is lost does not tell its name any more.
    first_rows=${first_rows:-$whole}
  fi
  rows="$rows$1$end_of_line" row_index=$index row_count=$((row_count + 1))
  look_at_clock
  heard=$now
}

take_state() {
  look_at_clock
  case $1 in
  'fields '*)
    # The columns of rows from before may have been others.
    [ "$fields" = "${1#* }" ] || rows='' whole='' row_count=0 whole_count=0 first_rows=''
    fields=${1#* } row_index=-1
    ;;
  start) smi=start heard= started=$now said= stuck_pid= ;;
  stuck*) smi=stuck stuck_pid=${1#* } ;;
  *) smi=${1%% *} ;;
  esac
}

# Sets `state` to how the values of nvidia-smi stand: ok, starting, hung, ended, absent.
judge_smi() {
  state=$smi
  case $smi in
  start)
    if [ -n "$heard" ]; then
      state=ok
      [ $((now - heard)) -gt $((500 + tick_ms / 10)) ] && state=hung
    else
      state=starting
      [ $((now - started)) -gt 3000 ] && state=hung
    fi
    ;;
  stuck) state=hung ;;
  esac
}

report() {
  look_at_clock
  # Beats that piled up while a file could not be read are one.
  [ "$1" = first ] || [ $((now - reported)) -ge 10 ] || return
  reported=$now
  look_at_wall
  look_at_ports
  look_at_pci
  was=$host
  host=$(cd proc && exec grep -e '^cpu' -e '^procs_b' -e '^[0-9]' -e '^some' -e '^full' -e '^MemTotal:' \
    -e '^MemAvailable:' -e '^Dirty:' -e '^Writeback:' stat meminfo loadavg pressure/cpu pressure/io \
    pressure/memory 2>&1)
  values=
  [ -n "$port_files" ] && values=$(cd sys/class/infiniband && exec grep -e '^[-0-9N]' $port_files /dev/null 2>&1)
  judge_smi
  judge_watch
  # A set of rows that has only begun to come is shown when it is as long as the one before.
  shown=$rows
  [ $row_count -lt $whole_count ] && shown=$whole
  put full "@pci $pci_gpus
@log $log_note
@watch $watch
@smi $state $stuck_pid
@said $said
@fields $fields
@first
$first_rows@rows
$shown@ports
$ports@host
$host
@was
$was
@values
$values"
  [ "$smi" = start ] && [ -n "$heard" ] && said=
}

# ---------------------------------------------------------------- the loop

consume() {
  trap - HUP INT TERM
  seq=0 reported=0 row_index=-1 row_count=0 whole_count=0 smi=start heard= log_read=-1000 log_seen= log=
  rows= whole= first_rows= said= stuck_pid= fields= host= ports_seen= pci_seen= log_note=
  shared= next= state=starting reading= watch=
  look_at_clock
  look_at_wall
  started=$now kernel= node= boot_id=
  read -r kernel </proc/sys/kernel/osrelease
  read -r node </proc/sys/kernel/hostname
  read -r boot_id <proc/sys/kernel/random/boot_id
  echo "stethoscope.probe/1 $nonce sh"
  put hello "@node $node
@kernel $kernel
@boot $boot_id
@tick $tick
@pid $$"
  report first
  choose_log
  report_log
  while IFS= read -r line; do
    case $line in
    @beat)
      report beat
      report_log
      ;;
    @stop)
      look_at_clock
      look_at_wall
      put bye stop
      break
      ;;
    @leave) break ;;
    '@smi '*) take_state "${line#* }" ;;
    '@watch '*) share "${line#* }" ;;
    @reading*)
      look_at_clock
      reading=${line#@reading} reading_since=$now
      reading=${reading# }
      ;;
    ?*) take_row "$line" ;;
    esac
  done
  # Some shells wait for both ends of a pipe.
  kill -USR1 $$
}

# Ends what reads the node together with what it waits for.
end_reader() {
  family=" $consumer "
  for round in children grandchildren; do
    for entry in /proc/[0-9]*; do
      read -r line <"$entry/stat" || continue
      set -- ${line##*) }
      case $family in *" $2 "*) family="$family${entry#/proc/} " ;; esac
    done
  done
  kill $family
  exit 0
}

trap end_reader HUP INT TERM
trap 'exit 0' USR1
exec 5>&1
listen | consume 3<&- 5>&- &
consumer=$!
exec 3<&- 5>&- >/dev/null
wait $consumer
exit 0
