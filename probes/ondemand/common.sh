# What every on-demand script begins with. The command line gives: whether `timeout` ends us, the probe's id, its time
# limit in seconds, `sudo` or `-`, and what the probe is aimed at. Nothing here writes to the node.
limited=$1 probe=$2 limit=$3 sudo=$4
shift 4
failed=0
line_feed='
'
PATH=$PATH:/usr/local/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin:/usr/mft/bin:/opt/mellanox/bin:/opt/ibutils/bin
LC_ALL=C
export PATH LC_ALL

# end_all SIGNAL: our process group is named by us, or by the `timeout` that runs us.
end_all() {
  kill "-$1" "-$$" || { [ "$limited" = timeout ] && kill "-$1" "-$PPID"; } || kill "-$1" "$$"
}

# Whoever ends us waits for what we run: else that would go on without anybody who can end it.
trap 'exit 143' TERM

# Our input is open for as long as somebody waits for us; then all of this ends, whatever it is doing.
(
  trap '' TERM
  while read -r line; do :; done <&4
  end_all TERM
  sleep 2
  end_all KILL
) >/dev/null 2>&1 &
waiting=$!
exec 4<&-
trap 'kill -KILL "$waiting" 2>/dev/null' EXIT
[ "$limited" = timeout ] || echo "stethoscope-probe: no timeout" >&2

# need NAME...: sets `tool` to the first of these commands that is there.
need() {
  for name in "$@"; do
    tool=$(command -v "$name" 2>/dev/null) && return 0
  done
  echo "stethoscope-probe: not installed: $1" >&2
  exit 127
}

# run COMMAND...: says what it runs, runs it, and says how it ended.
run() {
  begin "" "$@"
  "$@"
  end $?
}

# run_root COMMAND...: the same with sudo, where that is allowed and asked for; else as who we are.
run_root() {
  if is_root || ! may_sudo "$@" || ! run_sudo "$@"; then run "$@"; fi
}

# must_root COMMAND...: the same, and nothing where we cannot be root.
must_root() {
  if is_root; then run "$@"; elif ! may_sudo "$@" || ! run_sudo "$@"; then
    echo "stethoscope-probe: needs root: ${1##*/}" >&2
    exit 126
  fi
}

# run_sudo COMMAND...: fails, and asks for nothing more, where sudo wants a password: it tells only when it is used.
run_sudo() {
  begin "sudo -n " "$@"
  # An own time limit: who is not root cannot end what sudo runs.
  if command -v timeout >/dev/null 2>&1 && sudo -n -l timeout -k 2 "$limit" "$@" >/dev/null 2>&1; then
    set -- timeout -k 2 "$limit" "$@"
  fi
  { said=$({ sudo -n "$@" 2>&1 >&3 3>&-; printf '\n%s' $?; } | tail -c 8192); } 3>&1
  status=${said##*"$line_feed"}
  printf '%s' "${said%"$status"}" >&2
  case $status$said in 1*sudo:*"password is required"* | 1*sudo:*"uthentication is required"*) sudo=-; status=refused ;; esac
  end "$status"
  [ "$sudo" = sudo ]
}

is_root() { [ "$(id -u)" = 0 ]; }

may_sudo() { [ "$sudo" = sudo ] && command -v sudo >/dev/null 2>&1 && sudo -n -l "$@" >/dev/null 2>&1; }

begin() {
  words=$1${2##*/}
  shift 2
  echo "stethoscope-probe: $ $words $*"
  echo "stethoscope-probe: $ $words $*" >&2
}

end() {
  echo
  echo "stethoscope-probe: exit $1"
  case $1 in 0 | refused) ;; *) failed=$1 ;; esac
}
