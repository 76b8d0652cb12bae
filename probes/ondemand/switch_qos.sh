# Asks the switch that a port hangs on how each of its ports shares its link between virtual lanes (arbitration), and
# prints it port by port. It only reads; it sends some management packets to that one switch, for which
# /dev/infiniband/umad* must be readable, and needs no login there. A port that gives its high table all of the link is
# called strict_priority: its low table never gets a turn.
need smpquery
ca=$1
port=$2

must_root "$tool" -C "$ca" -P "$port" -D nodedesc "0,$port"
said=$(must_root "$tool" -C "$ca" -P "$port" -D nodeinfo "0,$port") || exit
count=$(echo "$said" | sed -n 's/^NumPorts:\.*\([0-9][0-9]*\)$/\1/p')
case $(echo "$said" | sed -n 's/^NodeType:\.*//p') in Switch) ;; *)
  echo "$said"
  echo "no switch answers behind this port" >&2
  exit 1
  ;;
esac
[ "$count" -le 256 ] || count=256

shares() {
  number=1
  while [ "$number" -le "$count" ]; do
    must_root "$tool" -C "$ca" -P "$port" -D vlarb "0,$port" "$number" 2>/dev/null | awk -v port="$number" '
      function table(from, weights,   i, lanes, list) {
        split(from, lanes, "|")
        split(weights, weight, "|")
        list = ""
        for (i = 2; i in weight; i++) {
          gsub(/ /, "", weight[i])
          gsub(/ /, "", lanes[i])
          if (weight[i] != "" && hex(weight[i]) > 0) list = list (list == "" ? "" : ",") hex(lanes[i]) ":" hex(weight[i])
        }
        return list
      }
      function hex(text,   i, value) {
        sub(/^0x/, "", text)
        text = tolower(text)
        value = 0
        for (i = 1; i <= length(text); i++) value = value * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
        return value
      }
      /Low priority/ { which = "low" }
      /High priority/ { which = "high" }
      /^VL / { lanes_line = $0 }
      /^WEIGHT/ { shared[which] = table(lanes_line, $0); known = 1 }
      END {
        if (!known) exit
        word = shared["low"] == "" ? "strict_priority" : "weighted"
        printf "port %s vl-arb: %s (high %s%s)\n", port, word, shared["high"] == "" ? "none" : shared["high"], shared["low"] == "" ? "" : "  low " shared["low"]
      }'
    number=$((number + 1))
  done
}
run shares "$ca" "$port"
