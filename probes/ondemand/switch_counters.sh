# Asks the switch that a port hangs on for the counters of all its ports, twice, two seconds apart, and prints how fast
# they grow. It only reads; no counter is set back. It sends management packets to that one switch, for which
# /dev/infiniband/umad* must be readable, and needs no login there. The way "0,1" leads out of port 1 to the switch,
# whose port 0 has its local address.
need perfquery
counters=$tool
need smpquery
ca=$1
port=$2

must_root "$tool" -C "$ca" -P "$port" -D nodedesc "0,$port"
said=$(must_root "$tool" -C "$ca" -P "$port" -D portinfo "0,$port" 0)
lid=$(echo "$said" | sed -n 's/^Lid:\.*\([0-9][0-9]*\)$/\1/p' | head -n 1)
case $lid in '' | 0 | 65535)
  echo "$said"
  echo "no switch answers behind this port" >&2
  exit 1
  ;;
esac

first=$(must_root "$counters" -x -a -l -C "$ca" -P "$port" "$lid") || exit
sleep 2
second=$(must_root "$counters" -x -a -l -C "$ca" -P "$port" "$lid") || exit

grown() {
  { echo "$first"; echo then; echo "$second"; } | awk '
    function rate(port, name) { return (later[port, name] - total[port, name]) / 2 }
    /^then$/ { again = 1; next }
    /Port .*counters: Lid/ {
      for (i = 1; i < NF; i++) if ($i == "port") port = $(i + 1)
      if (!(port in seen)) { seen[port] = 1; order[++ports] = port }
      next
    }
    /^(PortXmitWait|PortXmitData|PortXmitDiscards|SymbolErrorCounter|PortRcvErrors|LinkDownedCounter):/ {
      split($0, pair, /:\.*/)
      if (again) later[port, pair[1]] = pair[2]
      else total[port, pair[1]] = pair[2]
    }
    END {
      for (i = 1; i <= ports; i++) {
        p = order[i]
        printf "port %s xmit_wait %.0f/s xmit_data %.0f/s", p, rate(p, "PortXmitWait"), rate(p, "PortXmitData")
        printf " xmit_discards %.0f/s symbol_errors %.1f/s", rate(p, "PortXmitDiscards"), rate(p, "SymbolErrorCounter")
        printf " rcv_errors %.1f/s link_downed %d\n", rate(p, "PortRcvErrors"), later[p, "LinkDownedCounter"]
      }
    }'
}
run grown "$ca" "$port"
