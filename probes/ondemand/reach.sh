# Tries whether this node reaches others of its job: finds the address of each, and over which interface packets go there
# (the one that ranks are told to use, else the one of the route), sends two pings, and opens a TCP connection to the
# port of ssh, to the port where jobs meet and to those that are being tried now, which is closed at once. Nothing is sent
# over it; besides, it only reads.
begin "" reach "$@"
told=
for file in /proc/[0-9]*/environ; do
  told=$(tr '\0' '\n' <"$file" 2>/dev/null | sed -n 's/^NCCL_SOCKET_IFNAME==\{0,1\}\([A-Za-z0-9._-]\{1,15\}\)$/\1/p' | head -n 1)
  [ -n "$told" ] && [ -e "/sys/class/net/$told" ] && break
  told=
done
[ -n "$told" ] && echo "told $told"
for peer in "$@"; do
  address=$(getent ahostsv4 "$peer" 2>/dev/null | sed -n '1s/ .*//p')
  if [ -z "$address" ]; then
    echo "peer $peer has no address here"
    continue
  fi
  route=$(ip -o route get "$address" 2>/dev/null | sed -n 's/.* dev \([A-Za-z0-9._-]*\).*/\1/p' | head -n 1)
  echo "peer $peer address $address over ${route:-no route}"
  if command -v ping >/dev/null 2>&1; then
    if ping -n -c 2 -i 0.3 -W 1 ${told:+-I "$told"} "$address" >/dev/null 2>&1; then
      echo "peer $peer ping answers"
    else
      echo "peer $peer ping no answer"
    fi
  fi
  command -v bash >/dev/null 2>&1 && command -v timeout >/dev/null 2>&1 || continue
  tried=$(ss -H -t -n state syn-sent dst "$address" 2>/dev/null | sed -n 's/.*:\([0-9]\{1,5\}\) *$/\1/p' | sort -u | head -n 2)
  for port in 22 29500 $tried; do
    said=$(timeout -k 1 2 bash -c 'exec 3<>"/dev/tcp/$1/$2"' bash "$address" "$port" 2>&1)
    case $?$said in
      0*) word=connects ;;
      124* | 137*) word="no answer" ;;
      *refused*) word=refused ;;
      *) word="no route" ;;
    esac
    echo "peer $peer tcp/$port $word"
  done
done
end 0
