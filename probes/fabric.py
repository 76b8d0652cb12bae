"""The InfiniBand and RoCE ports, from /sys/class/infiniband."""

import os

import files

PORT_FILES = [
    (prefix + name.lower(), folder + name)
    for prefix, folder, names in (
        ("ib_port_", "", "state phys_state rate"),
        (
            "ib_",
            "counters/",
            "port_xmit_data port_rcv_data symbol_error link_error_recovery link_downed port_rcv_errors "
            "port_rcv_remote_physical_errors local_link_integrity_errors excessive_buffer_overrun_errors "
            "port_xmit_discards port_xmit_wait VL15_dropped port_rcv_switch_relay_errors",
        ),
        (
            "ib_hw_",
            "hw_counters/",
            "out_of_buffer out_of_sequence packet_seq_err local_ack_timeout_err rnr_nak_retry_err req_cqe_error "
            "roce_slow_restart implied_nak_seq_err",
        ),
        ("roce_", "hw_counters/", "np_cnp_sent rp_cnp_handled"),
    )
    for name in names.split()
]
"""Metric and file of each value."""


class Ports:
    """The ports under /sys/class/infiniband."""

    def __init__(self):
        self.known = {}

    def read(self):
        """Return (identities, {metric: values in the order of the identities})."""
        base = "/sys/class/infiniband"
        found = []
        for device in files.list_names(base):
            numbers = [int(name) for name in files.list_names("%s/%s/ports" % (base, device)) if name.isdigit()]
            found.extend((device, number) for number in sorted(numbers))
        # Adapters sort as people count them: mlx5_2 before mlx5_10.
        found.sort(key=lambda port: (len(port[0]), port))
        self.known = {port: self.known.get(port) or self.identify(*port) for port in found}
        values = {}
        if found:
            paths = ["%s/%s/ports/%d/" % (base, device, number) for device, number in found]
            values = {metric: [self.value(path + name) for path in paths] for metric, name in PORT_FILES}
        return [self.known[port] for port in found], values

    @staticmethod
    def identify(device, number):
        """Return what is fixed about a port."""
        base = "/sys/class/infiniband/" + device
        identity = {"device": device, "port": number}
        identity["layer"] = files.read_text("%s/ports/%d/link_layer" % (base, number))
        identity["pci"] = os.path.basename(os.path.realpath(files.ROOT + base + "/device"))
        if ":" not in identity["pci"]:
            identity["pci"] = ""
        names = files.list_names(base + "/device/net")
        place = str(number - 1)
        fitting = [name for name in names if files.read_text("%s/device/net/%s/dev_port" % (base, name)) == place]
        identity["netdev"] = (fitting or names or [""])[0]
        return identity

    @staticmethod
    def value(path):
        """Return the number that a port's file begins with, or the word for why there is none."""
        try:
            text = files.read_file(path)
        except OSError as error:
            return files.reason_of(error)
        if text.startswith(b"N/A"):
            return "unsupported"
        try:
            word = text.split()[0].rstrip(b":")
            number = float(word) if b"." in word else int(word)
        except (ValueError, IndexError):
            return "error"
        return int(number) if number == int(number) else number
