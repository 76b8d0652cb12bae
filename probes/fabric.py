"""The InfiniBand and RoCE ports, from /sys/class/infiniband."""

import os
import re

import files

PORT_FILES = (
    ("ib_port_state", "state"),
    ("ib_port_phys_state", "phys_state"),
    ("ib_port_rate", "rate"),
    ("ib_port_xmit_data", "counters/port_xmit_data"),
    ("ib_port_rcv_data", "counters/port_rcv_data"),
    ("ib_symbol_error", "counters/symbol_error"),
    ("ib_link_error_recovery", "counters/link_error_recovery"),
    ("ib_link_downed", "counters/link_downed"),
    ("ib_port_rcv_errors", "counters/port_rcv_errors"),
    ("ib_port_rcv_remote_physical_errors", "counters/port_rcv_remote_physical_errors"),
    ("ib_local_link_integrity_errors", "counters/local_link_integrity_errors"),
    ("ib_excessive_buffer_overrun_errors", "counters/excessive_buffer_overrun_errors"),
    ("ib_port_xmit_discards", "counters/port_xmit_discards"),
    ("ib_port_xmit_wait", "counters/port_xmit_wait"),
    ("ib_vl15_dropped", "counters/VL15_dropped"),
    ("ib_port_rcv_switch_relay_errors", "counters/port_rcv_switch_relay_errors"),
    ("ib_hw_out_of_buffer", "hw_counters/out_of_buffer"),
    ("ib_hw_out_of_sequence", "hw_counters/out_of_sequence"),
    ("ib_hw_packet_seq_err", "hw_counters/packet_seq_err"),
    ("ib_hw_local_ack_timeout_err", "hw_counters/local_ack_timeout_err"),
    ("ib_hw_rnr_nak_retry_err", "hw_counters/rnr_nak_retry_err"),
    ("ib_hw_req_cqe_error", "hw_counters/req_cqe_error"),
    ("ib_hw_roce_slow_restart", "hw_counters/roce_slow_restart"),
    ("ib_hw_implied_nak_seq_err", "hw_counters/implied_nak_seq_err"),
    ("roce_np_cnp_sent", "hw_counters/np_cnp_sent"),
    ("roce_rp_cnp_handled", "hw_counters/rp_cnp_handled"),
)


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
        found.sort(
            key=lambda port: ([int(part) if part.isdigit() else 0 for part in re.split(r"(\d+)", port[0])], port)
        )
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
            number = float(text.split()[0].rstrip(b":")) if b"." in text else int(text.split()[0].rstrip(b":"))
        except (ValueError, IndexError):
            return "error"
        return int(number) if number == int(number) else number
