# Prints which TCP ports somebody listens on, and the rules by which this host refuses or drops what comes. It only
# reads: no connection is made, and no rule is touched.
need ss
run_root "$tool" -H -l -t -n -p
for name in nft iptables-save; do
  tool=$(command -v "$name" 2>/dev/null) || continue
  if [ "$name" = nft ]; then run_root "$tool" list ruleset; else run_root "$tool"; fi
  break
done
