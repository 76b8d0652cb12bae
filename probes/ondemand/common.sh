# What every on-demand script begins with. The command line gives: the probe's id, its time limit in seconds, `sudo`
# or `-`, and what the probe is aimed at. Nothing here writes to the node.
probe=$1 limit=$2 sudo=$3
shift 3
failed=0
PATH=$PATH:/usr/local/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin:/usr/mft/bin:/opt/mellanox/bin:/opt/ibutils/bin
LC_ALL=C
export PATH LC_ALL

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
  shown="${1##*/}"
  real=$1
  shift
  begin "$shown $*"
  "$real" "$@"
  end $?
}

# run_root COMMAND...: the same with sudo, where that is allowed and asked for; else as who we are.
run_root() {
  if is_root || ! may_sudo "$@"; then
    run "$@"
    return
  fi
  shown="${1##*/}"
  real=$1
  shift
  begin "sudo -n $shown $*"
  # An own time limit: who is not root cannot end what sudo runs.
  if command -v timeout >/dev/null 2>&1 && sudo -n -l timeout -k 2 "$limit" "$real" "$@" >/dev/null 2>&1; then
    sudo -n timeout -k 2 "$limit" "$real" "$@"
  else
    sudo -n "$real" "$@"
  fi
  end $?
}

# must_root COMMAND...: the same, and nothing where we cannot be root.
must_root() {
  if ! is_root && ! may_sudo "$@"; then
    echo "stethoscope-probe: needs root: ${1##*/}" >&2
    exit 126
  fi
  run_root "$@"
}

is_root() { [ "$(id -u)" = 0 ]; }

may_sudo() { [ "$sudo" = sudo ] && command -v sudo >/dev/null 2>&1 && sudo -n -l "$@" >/dev/null 2>&1; }

begin() {
  echo "stethoscope-probe: $ $*"
  echo "stethoscope-probe: $ $*" >&2
}

end() {
  echo
  echo "stethoscope-probe: exit $1"
  [ "$1" = 0 ] || failed=$1
}
