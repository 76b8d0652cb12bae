# Prints the kernel log since a time, with the time of each line: from the journal, else from the kernel itself. It only reads.
# $1 is the time in seconds since 1970, $2 the most bytes; what is older gives way.
since=$1 most=$2
head_line() {
  echo "stethoscope-log: $1 $(sed -n 's/^btime //p' /proc/stat 2>/dev/null)"
}
journal() {
  journalctl -k -q --no-pager -o short-unix "$@" 2>/dev/null
}
# Who may not read the journal of the system gets an empty one: its last line tells that from a quiet night.
if command -v journalctl >/dev/null 2>&1 && [ -n "$(journal -n 1)" ]; then
  head_line journal
  journal --since "@$since" | tail -c "$most"
elif lines=$(dmesg 2>/dev/null) || { [ "$sudo" = sudo ] && lines=$(sudo -n dmesg 2>/dev/null); }; then
  head_line kernel
  printf '%s\n' "$lines" | tail -c "$most"
else
  echo "stethoscope-log: the kernel log is closed to $(id -un): add the user to group systemd-journal" >&2
  exit 66
fi
