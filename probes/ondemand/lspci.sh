# Prints the PCIe capabilities, link states and error registers of one device, or of all GPUs, NVSwitches and adapters.
# It only reads the configuration space, of which only root sees all.
need lspci
if [ $# -gt 0 ]; then
  run_root "$tool" -D -vvv -s "$1"
else
  run_root "$tool" -D -vvv -d 10de:
  run_root "$tool" -D -vvv -d 15b3:
fi
