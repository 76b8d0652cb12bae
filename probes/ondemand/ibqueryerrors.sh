# Asks every port of the fabric for its error counters and prints those above a threshold. It only reads, but sends
# management packets to all switches and adapters, and needs /dev/infiniband/umad*.
need ibqueryerrors
must_root "$tool" --data --details
