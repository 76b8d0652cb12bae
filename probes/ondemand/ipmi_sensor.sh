# Prints what the sensors of the management controller read now: fans, power supplies, temperatures, voltages. It only
# reads, and keeps the controller busy for some seconds.
need ipmitool
must_root "$tool" sdr elist
