# Prints which addresses (GIDs) every adapter port has, and the link layer, interface and MTU of each. It only reads what
# the kernel keeps under /sys; no tool is needed. Of a GID the last two numbers are an IPv4 address where the one before
# them is ffff and all others are 0; without an address the entry is empty or that of the link alone.
base=/sys/class/infiniband

word() { { read -r said <"$1"; } 2>/dev/null && [ -n "$said" ] && echo "${said%%:*}" || echo -; }

ports() {
  for device in "$base"/*; do
    name=$(basename "$device")
    for where in "$device"/ports/*; do
      [ -e "$where/link_layer" ] || continue
      port=$(basename "$where")
      found='- -'
      for net in "$device"/device/net/*; do
        [ -e "$net" ] || continue
        own=$(word "$net/dev_port")
        case $own in - | $((port - 1))) found="$(basename "$net") $(word "$net/mtu")" && break ;; esac
      done
      state=DOWN
      [ "$(word "$where/state")" = 4 ] && state=ACTIVE
      echo "$name $port $(word "$where/link_layer") $state $found"
    done
  done
}

gids() {
  echo "DEV	PORT	INDEX	GID					IPv4		VER	DEV"
  for entry in "$base"/*/ports/*/gids/[0-9] "$base"/*/ports/*/gids/[1-3][0-9]; do
    { read -r gid <"$entry"; } 2>/dev/null || continue
    case $gid in '' | *0000:0000:0000:0000) continue ;; esac
    index=$(basename "$entry")
    above=${entry%/gids/*}
    port=$(basename "$above")
    device=$(basename "${above%/ports/*}")
    kind=v1
    { read -r said <"$above/gid_attrs/types/$index"; } 2>/dev/null || said=
    case $said in *v2) kind=v2 ;; esac
    { read -r net <"$above/gid_attrs/ndevs/$index"; } 2>/dev/null || net=
    address=
    case $gid in
      0000:0000:0000:0000:0000:ffff:*)
        IFS=:
        set -- $gid
        unset IFS
        high=$((0x$7))
        low=$((0x$8))
        address=$((high / 256)).$((high % 256)).$((low / 256)).$((low % 256))
        ;;
    esac
    echo "$device	$port	$index	$gid	$address	$kind	$net"
  done
}
run ports
run gids
