# What the probe in sh reads rarely: files and commands in groups, each with a grep or a few. It comes behind the
# first frame, with watch_gpu.sh; then come the groups, which stethoscope/collect/shgroups.py makes of the manifest.
#
# It runs beside the frames, so that what never comes back costs only itself. Parts go straight to the output; the pipe
# of descriptor 6 holds one line, the number of the next block, which who prints takes out and puts back.

# ---------------------------------------------------------------- processes

# Sets `inner` to all that run at least two steps below the process $1, a command first and what it started behind it,
# and `outer` to those right below it.
find_family() {
  pairs=$(grep -o -h -E -e '^[0-9]+ \(.*\) [A-Za-z] [0-9]+' /proc/[0-9]*/stat)
  level=" $1 " outer= inner=
  IFS=$end_of_line
  set -f
  for depth in 1 2 3 4 5 6 7 8; do
    below=" "
    for line in $pairs; do
      case $level in *" ${line##* } "*) below="$below${line%% *} " ;; esac
    done
    [ "$below" != " " ] || break
    if [ $depth = 1 ]; then outer=$below; else inner="$inner$below"; fi
    level=$below
  done
  unset IFS
  set +f
}

# Ends all that reads rarely. Who waits for the number of the next block gets an empty line instead.
end_watch() {
  find_family "$watch_pid"
  (echo >"/proc/$watch_pid/fd/6")
  kill $watch_pid $outer $inner
}

# Ends what did not listen to that; nvidia-smi is left alone.
finish_watch() {
  for pid in $outer $inner; do
    read -r word <"/proc/$pid/comm" && [ "$word" != nvidia-smi ] && kill -KILL "$pid"
  done
}

# Sets `since` to when a process was started, in clock ticks since boot; fails when it is gone.
look_at_start() {
  read -r line <"/proc/$1/stat" || return
  set -- ${line##*) }
  shift 19
  since=$1
}

# Ends the command of the job $1 that took too long, and says what became of it.
strike() {
  find_family "$1"
  [ -n "$inner" ] || return
  # Without its job it would not be known any more whose it is.
  kill $inner
  sleep 0.7 || sleep 1
  find_family "$1"
  if [ -n "$inner" ] && [ "$tool" != nvidia-smi ]; then
    kill -KILL $inner
    sleep 0.7 || sleep 1
    find_family "$1"
  fi
  set -- "$1" $inner
  if [ $# -gt 1 ] && look_at_start "$2"; then
    kill -KILL "$1" $outer
    echo "@hung $name $2:$since"
  else
    echo "@timeout $name"
  fi
}

# Runs a command for no longer than it may: run NAME SECONDS TOOL COMMAND... Prints its lines with their numbers, then
# its status and its errors, likewise. One that could not be ended is not started again while it is there, and what sudo
# refused is not asked again, because each refusal goes into the node's log; that it cannot resolve a host is none.
run() {
  name=$1 limit=$2 tool=$3
  shift 3
  case $last in
  *"@hung $name "[0-9]*)
    was=${last#*"@hung $name "}
    was=${was%%"$end_of_line"*}
    if look_at_start "${was%:*}" && [ "$since" = "${was#*:}" ]; then
      echo "@hung $name $was"
      return
    fi
    ;;
  *"@ran $name${end_of_line}1:${end_of_line}2:@exit 1${end_of_line}3:sudo: "[!u]*)
    was=${last#*"@ran $name$end_of_line"}
    printf '@ran %s\n%s\n' "$name" "${was%%"$end_of_line@"*}"
    return
    ;;
  esac
  if ! command -v "$tool" >/dev/null; then
    echo "@absent $name"
    return
  fi
  echo "@ran $name"
  look_at_clock
  until=$((now + limit * 100 - 20))
  sleep "$limit" >/dev/null &
  timer=$!
  {
    {
      errors=$("$@" 2>&1 >&8 8>&-)
      printf '\n@exit %s\n%s' $? "$errors"
    } 8>&1 | grep -n -m 5000 -e ''
    # Some shells lose a milder signal before it has begun.
    kill -KILL $timer
  } &
  job=$!
  # Not all shells tell by the status whether it was killed.
  wait $timer
  look_at_clock
  if [ "$now" -lt "$until" ]; then wait $job; else strike $job; fi
}

# ---------------------------------------------------------------- files; paths are relative to the root

# Gives up a group when its grep could not be started or was killed: half of it would say that devices are gone.
check() {
  [ $? -lt 126 ] || exit 1
}

# Prints the lines of files.
plain() {
  echo @files
  grep -e '' -- "$@" /dev/null 2>&1
  check
}

# Prints which files there are and the lines of them that match: some EXPRESSION FILE...
some() {
  only=$1
  shift
  echo @among
  printf '%s\n' "$@"
  echo @files
  grep -E -e "$only" -- "$@" /dev/null 2>&1
  check
}

# Prints which files there are and their lines that do not end in 0.
nonzero() {
  echo @among
  printf '%s\n' "$@"
  echo @files
  grep -v -E -e '(^|[[:space:]])0[[:space:]]*$' -e '^[[:space:]]*$' -- "$@" /dev/null 2>&1
  check
}

# Prints the lines of many files that mostly say the same: count PATTERN FILE...
count() {
  echo "@count $1"
  shift
  grep -h -e '' -- "$@" /dev/null
  check
}

# Prints where links lead. It takes no process to follow one that leads to a directory.
link() {
  echo @links
  for place; do
    real=
    if [ -d "$place" ]; then
      cd -P "$place" && real=$PWD
      cd "$root/" || exit 1
    fi
    [ -n "$real" ] || [ ! -h "$place" ] && [ ! -e "$place" ] || real=${real:-$(follow "$place")}
    case $base$real in "$base$base"/*) real=${real#"$base"} ;; esac
    echo "$place $real"
  done
}

follow() {
  readlink -f "$1" && return
  said=$(ls -ld "$1")
  said=${said##*" -> "}
  case $said in /*) echo "$said" ;; ?*) echo "$base/${1%/*}/$said" ;; esac
}

# Prints whose processes are, by their directories under the root.
people() {
  echo @owners
  owners=$(ls -nd -- "$@") uids=
  IFS=$end_of_line
  set -f
  for line in $owners; do
    unset IFS
    set -- $line
    echo "$3 ${line##* }"
    case " $uids " in *" $3 "*) ;; *) uids="$uids $3" ;; esac
  done
  unset IFS
  set +f
  [ -z "$uids" ] || run users 3 getent exec getent passwd $uids
}

# Prints the processes that wait for the kernel or are dead and not collected. Where there are many processes, what was
# found is said again for a while.
tasks() {
  case $((round % 4))$last in
  [123]*"@tasks many"*)
    printf '@tasks many%s\n' "${last##*"@tasks many"}"
    return
    ;;
  esac
  set -- proc/[0-9]*/stat
  if [ $# -gt 1000 ]; then echo "@tasks many"; else echo @tasks; fi
  found=$(grep -h -e ') [DZ] ' -- "$@" /dev/null)
  set --
  IFS=$end_of_line
  set -f
  for line in $found; do
    rest=${line##*") "}
    case $rest in
    # What the kernel itself started is nobody's.
    [DZ]" 2 "*) continue ;;
    [DZ]" "*) ;;
    *) continue ;;
    esac
    [ $# -lt 500 ] || break
    parent=${rest#? }
    # What changes all the time stands behind the parent.
    echo "${line%"$rest"}${rest%% *} ${parent%% *}"
    set -- "$@" "proc/${line%% *}"
  done
  unset IFS
  set +f
  [ $# -gt 0 ] || return
  echo @waits
  waits=$(for place; do echo "$place/wchan"; done)
  grep -e '' -- $waits /dev/null
  people "$@"
}

# Prints the statistics of network interfaces whose names match: interfaces EXPRESSION DIRECTORY...
interfaces() {
  [ -d "$2" ] || return
  if command -v ethtool >/dev/null; then
    run ethtool 15 ethtool statistics "$@"
  else
    shift
    echo @among
    printf '%s\n' "$@"
    echo @files
  fi
}

statistics() {
  only=$1
  shift
  for place; do
    echo "@ $place"
    ethtool -S "${place##*/}" | grep -E -e "$only"
  done
}

# ---------------------------------------------------------------- the loop

# Prints the block of `group` with the text $1.
tell() {
  IFS=' ' read -r next state <&6
  printf '@part %s %s %s\n@name %s\n@s %s\n%s\n@end %s\n' "$next" "$read_at" "$read_wall" "$group" "$every" "$1" \
    "$next" >&5 || exit 0
  echo "$((next + 1)) $state" >&6
}

# Reads a group that is due and says what it found, or that nothing changed; at least every five minutes all of it.
attend() {
  group=$1
  eval "every=\$every_$group limit=\$limit_$group first=\$first_$group last=\$last_$group sent=\$sent_$group" \
    "round=\$round_$group"
  look_at_clock
  look_at_wall
  began=$now read_at=$uptime read_wall=$wall
  [ "$first" != 0 ] || first=$every
  eval "due_$group=$((began + first * 100)) first_$group=0 round_$group=$((round + 1)) began_$group=$began"
  if [ $group = gpu ]; then
    # No second nvidia-smi beside one that hangs, or that does not work.
    IFS=' ' read -r next state <&6
    echo "$next $state" >&6
    [ "$state" = ok ] || { eval "due_$group=$((began + 1000))"; return; }
  fi
  echo "@reading $group $limit" || exit 0
  if [ $group = gpu ] && [ -z "$gpu_fields" ]; then learn_gpu "$gpu_wanted"; fi
  [ $group = gpu ] && [ -z "$gpu_fields" ] || content=$(exec 5>&- 6>&-; eval "read_$group"; echo @whole)
  echo @reading || exit 0
  [ $group = gpu ] && [ -z "$gpu_fields" ] && return
  # A shell that cannot start a process ends. More than so much the console would take for a flood.
  case $end_of_line$content in *"$end_of_line@whole") ;; *) return ;; esac
  content=${content%@whole}
  content=${content%"$end_of_line"}
  [ ${#content} -lt 900000 ] || return
  if [ "$content" = "$last" ] && [ $((began - sent)) -lt 29900 ]; then
    tell @same
  else
    eval "last_$group=\$content sent_$group=$began"
    tell "$content"
  fi
}

# Says all groups again; what was read a moment ago is not read again.
repeat() {
  again=
  look_at_clock
  for group in $groups; do
    eval "every=\$every_$group began=\$began_$group last=\$last_$group"
    if [ -n "$last" ] && [ $((now - began)) -lt $((every * 10)) ]; then
      read_at=$uptime
      tell "$last"
    else
      eval "due_$group=0 sent_$group=-30000"
    fi
  done
}

# Sleeps until it is time, in centiseconds since boot, or until somebody asks.
rest_until() {
  sleep $((($1 - now + 99) / 100)) >/dev/null 5>&- 6>&- &
  nap=$!
  wait $nap
  kill -KILL $nap
}

watch() {
  trap - HUP INT TERM PIPE
  again=
  trap again=1 USR1
  exec 6<>/proc/self/fd/0 </dev/null
  read -r own line </proc/self/stat
  echo "@watch $own" || exit 0
  base=$(cd -P "$root/" && pwd -P)
  [ "$base" != / ] || base=
  sudo= gpu_fields= state=starting
  look_at_clock
  look_at_wall
  read_wall=$wall
  for group in $groups; do
    eval "due_$group=$now last_$group= sent_$group=-30000 round_$group=0 began_$group=0"
  done
  prepare
  while :; do
    [ -z "$again" ] || repeat
    look_at_clock
    soonest=
    for group in $groups; do
      eval "due=\$due_$group"
      [ -n "$soonest" ] && [ "$due" -ge "$soonest_at" ] || { soonest=$group soonest_at=$due; }
    done
    if [ "$soonest_at" -gt "$now" ]; then
      rest_until "$soonest_at"
    else
      attend $soonest
    fi
  done
}

# Sets `sudo` to what goes before a command that needs root, when this is not root and sudo is there.
use_sudo() {
  while read -r word uid rest; do
    [ "$word" != Uid: ] || break
  done </proc/self/status
  set -- $rest
  [ "${1:-0}" = 0 ] || ! command -v sudo >/dev/null || sudo="sudo -n"
}
