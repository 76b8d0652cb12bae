# Prints a part of one file: its size and number, then what follows an offset, at most so many bytes. It only reads.
# $1 is the offset, or `end`; $2 the file's number when it was read last; $3 the most bytes; the rest is the
# path, every byte as three octal digits, so that no shell reads anything into it.
from=$1 number=$2 most=$3
shift 3
coded=
for word in "$@"; do
  while [ -n "$word" ]; do
    rest=${word#???}
    coded="$coded\\0${word%"$rest"}"
    word=$rest
  done
done
path=$(printf '%b' "$coded")
refuse() {
  echo "stethoscope-log: $1" >&2
  exit 66
}
[ -e "$path" ] || refuse "no such file, or a directory above it is closed to $(id -un)"
[ -d "$path" ] && refuse "a directory, not a file"
[ -f "$path" ] || refuse "not a plain file"
[ -r "$path" ] || refuse "not readable as $(id -un)"
now=$(stat -L -c '%i %s' -- "$path" 2>/dev/null) || now=
if [ -z "$now" ]; then
  now=$(ls -idL -- "$path") && now=${now#"${now%%[! ]*}"} && now="${now%% *} $(wc -c <"$path" | tr -d ' ')"
fi
same=${now% *} size=${now#* }
case $from in
  end) from=$((size > most ? size - most : 0)) ;;
  *) { [ "$same" = "$number" ] && [ "$from" -le "$size" ]; } || from=0 ;;
esac
echo "stethoscope-log: $same $size $from"
tail -c "+$((from + 1))" -- "$path" | head -c "$most"
