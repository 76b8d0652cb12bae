# Prints the health log of one NVMe disk, and which NVMe disks there are. It only reads.
need nvme
must_root "$tool" smart-log -o json "/dev/$1"
run_root "$tool" list -o json
