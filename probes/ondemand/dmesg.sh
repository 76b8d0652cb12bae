# Prints the last lines of the journal that are more than information - of the kernel, of daemons such as chronyd, smartd
# and the fabric manager - or those of the kernel alone where there is no journal. It only reads.
need journalctl dmesg
case $tool in
*journalctl) run_root "$tool" --no-pager -o short-iso -p notice -n 300 ;;
*) run_root sh -c 'dmesg -T | tail -n 300' ;;
esac
