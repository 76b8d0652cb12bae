"""What runs in the NVML child, the one process that talks to the driver."""

import json
import math
import os
import select
import signal
import sys
import time

ROOT = os.environ.get("STETHOSCOPE_ROOT", "")
PCIE_S = 10.0
"""Every GPU's PCIe traffic is sampled once in this time; one sample keeps the driver busy for 20 ms a direction."""

GPU_METRICS = (
    "gpu_sm_clock",
    "gpu_util",
    "gpu_power_draw",
    "gpu_temp",
    "gpu_temp_margin",
    "gpu_mem_temp",
    "gpu_clocks_event_reasons",
    "gpu_fb_used",
    "gpu_fb_total",
    "gpu_mem_copy_util",
    "gpu_power_limit",
    "gpu_pcie_rx",
    "gpu_pcie_tx",
    "nvlink_rx",
    "nvlink_tx",
    "gpu_handle_error",
)


class Driver:
    """NVML through pynvml. One GPU that fails costs only its own values."""

    CODES = {
        2: "unsupported",
        3: "unsupported",
        4: "permission",
        6: "absent",
        13: "unsupported",
        15: "lost",
        25: "unsupported",
    }
    """2 is what an older driver says about the number of a field, or of a link, that it does not know."""
    FOLDERS = (
        "/usr/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/local/nvidia/lib64",
        "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
        "/run/nvidia/driver/usr/lib64",
        "/home/kubernetes/bin/nvidia/lib64",
        "/run/opengl-driver/lib",
        "/usr/lib/wsl/lib",
    )
    """Where the library is when the dynamic loader does not know: containers, driver operators, NixOS."""
    REFUSALS = {
        6: "no devices",
        9: "no driver loaded",
        12: "no NVML library",
        18: "driver/library version mismatch",
        4: "permission",
    }

    def __init__(self, nvml):
        self.nvml = nvml
        self.identities = []
        self.known = []
        self.handles = []
        self.pcie = []
        self.next_pcie = 0

    def open(self):
        """Initialise the driver's library; return an empty string, or short words for why it refuses."""
        # Here, so that only the child has it in memory.
        import ctypes

        for folder in ("", *self.FOLDERS):
            try:
                if folder:
                    # Once loaded from anywhere, the loader finds it by its bare name.
                    ctypes.CDLL(ROOT + folder + "/libnvidia-ml.so.1")
                self.nvml.nvmlInit()
                return ""
            except OSError:
                continue
            except self.nvml.NVMLError as error:
                if error.value != 12:
                    return self.REFUSALS.get(error.value, "NVML error %d" % error.value)
        return self.REFUSALS[12]

    def attempt(self, question, *arguments):
        """Return the driver's answer, or the word for why there is none."""
        try:
            return question(*arguments)
        except self.nvml.NVMLError as error:
            return self.CODES.get(error.value, "error")
        except (UnicodeDecodeError, ValueError):
            return "error"

    def read(self):
        """Return one round of answers about all GPUs."""
        started = time.monotonic()
        try:
            count = self.nvml.nvmlDeviceGetCount()
        except self.nvml.NVMLError as error:
            return {"note": self.REFUSALS.get(error.value, "NVML error %d" % error.value)}
        while len(self.identities) < count:
            self.identities.append({"index": len(self.identities)})
            self.known.append(False)
            self.handles.append("waiting")
            self.pcie.append(("waiting", "waiting"))
        columns = {metric: [] for metric in GPU_METRICS}
        working = 0
        for index in range(len(self.identities)):
            values = self.read_gpu(index)
            working += values["gpu_handle_error"] == 0
            for metric in GPU_METRICS:
                columns[metric].append(values[metric])
        return {
            "gpus": self.identities,
            "gpu": columns,
            "node": {"gpu_count": working, "nvml_latency": round((time.monotonic() - started) * 1000, 1)},
            "note": "" if self.identities else "no devices",
        }

    def read_gpu(self, index):
        """Return all values of one GPU."""
        try:
            handle = self.nvml.nvmlDeviceGetHandleByIndex(index)
        except self.nvml.NVMLError as error:
            return self.broken(index, error.value)
        if not self.known[index]:
            self.identify(index, handle)
        values = self.ask(handle)
        if "lost" in values.values():
            return self.broken(index, 15)
        self.handles[index] = handle
        values["gpu_pcie_rx"], values["gpu_pcie_tx"] = self.pcie[index]
        values["gpu_handle_error"] = 0
        return values

    def broken(self, index, code):
        """Return the values of a GPU that does not work; it keeps its place and its last known identity.
        A word stands where its handle was."""
        self.known[index] = False
        self.pcie[index] = ("waiting", "waiting")
        self.handles[index] = word = "lost" if code == 15 else "permission" if code == 4 else "error"
        values = dict.fromkeys(GPU_METRICS, word)
        values["gpu_handle_error"] = code
        return values

    def identify(self, index, handle):
        """Learn what is fixed about a GPU."""
        name = self.attempt(self.nvml.nvmlDeviceGetName, handle)
        uuid = self.attempt(self.nvml.nvmlDeviceGetUUID, handle)
        if {name, uuid} & {"error", *self.CODES.values()}:
            return
        identity = {"index": index, "name": name, "uuid": uuid}
        place = self.attempt(self.nvml.nvmlDeviceGetPciInfo, handle)
        if not isinstance(place, str):
            # The driver writes 00000000:4F:00.0, sysfs 0000:4f:00.0.
            address = place.busId
            if isinstance(address, bytes):
                address = address.decode("ascii", "replace")
            address = address.lower()
            identity["pci"] = address[4:] if address.startswith("0000") and len(address) == 16 else address
        self.identities[index] = identity
        self.known[index] = True

    def ask(self, handle):
        """Return what the driver says about one working GPU, PCIe traffic apart."""
        nvml, attempt = self.nvml, self.attempt
        values = {
            "gpu_sm_clock": attempt(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            "gpu_power_draw": scaled(attempt(nvml.nvmlDeviceGetPowerUsage, handle), 1000, 1),
            "gpu_power_limit": scaled(attempt(nvml.nvmlDeviceGetEnforcedPowerLimit, handle), 1000, 1),
            "gpu_temp_margin": attempt(nvml.nvmlDeviceGetMarginTemperature, handle),
        }
        busy = attempt(nvml.nvmlDeviceGetUtilizationRates, handle)
        plain = isinstance(busy, str)
        values["gpu_util"] = busy if plain else busy.gpu
        values["gpu_mem_copy_util"] = busy if plain else busy.memory
        # What a newer driver has under a new name, an older one has under the old.
        values["gpu_temp"] = attempt(nvml.nvmlDeviceGetTemperatureV, handle, nvml.NVML_TEMPERATURE_GPU)
        if values["gpu_temp"] == "unsupported":
            values["gpu_temp"] = attempt(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
        reasons = attempt(nvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
        if reasons == "unsupported":
            reasons = attempt(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
        values["gpu_clocks_event_reasons"] = reasons
        memory = attempt(nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
        if memory == "unsupported":
            memory = attempt(nvml.nvmlDeviceGetMemoryInfo, handle)
        plain = isinstance(memory, str)
        values["gpu_fb_used"] = memory if plain else round(memory.used / 1048576.0)
        values["gpu_fb_total"] = memory if plain else round(memory.total / 1048576.0)
        self.ask_fields(handle, values)
        return values

    def ask_fields(self, handle, values):
        """Fill in what only field ids give. The ids used here are the same in every driver; scope 2**32 - 1 means all
        links, whose traffic is counted in KiB."""
        nvml = self.nvml
        every_link = 0xFFFFFFFF
        fields = [
            ("gpu_mem_temp", nvml.NVML_FI_DEV_MEMORY_TEMP),
            ("nvlink_tx", (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, every_link)),
            ("nvlink_rx", (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, every_link)),
        ]
        values.update(zip([name for name, _ in fields], self.fields(handle, [field for _, field in fields])))
        for metric, field in (
            ("nvlink_tx", nvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES),
            ("nvlink_rx", nvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES),
        ):
            if values[metric] == "unsupported":
                # The fifth generation of NVLink counts bytes, link by link.
                links = self.fields(handle, [(field, link) for link in range(18)])
                counted = [count for count in links if not isinstance(count, str)]
                if counted:
                    values[metric] = int(sum(counted)) // 1024

    def fields(self, handle, fields):
        """Return the values of field ids, each with its own reason when it is missing."""
        answers = self.attempt(self.nvml.nvmlDeviceGetFieldValues, handle, fields)
        if isinstance(answers, str):
            return [answers] * len(fields)
        return [self.field_value(answer) for answer in answers]

    def field_value(self, answer):
        """Return the number in a field's answer, or the word for why there is none."""
        if answer.nvmlReturn:
            return self.CODES.get(answer.nvmlReturn, "error")
        kinds = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
        if answer.valueType >= len(kinds):
            return "error"
        return getattr(answer.value, kinds[answer.valueType])

    def sample_pcie(self, most):
        """Sample the PCIe traffic of the next `most` GPUs in turn, between two rounds: the driver sleeps meanwhile. The
        next question, or the end of questions, breaks it off."""
        nvml = self.nvml
        for position in range(min(most, len(self.handles))):
            if position and select.select([0], [], [], 0)[0]:
                return
            index = self.next_pcie % len(self.handles)
            self.next_pcie = index + 1
            handle = self.handles[index]
            if not isinstance(handle, str):
                self.pcie[index] = (
                    self.attempt(nvml.nvmlDeviceGetPcieThroughput, handle, nvml.NVML_PCIE_UTIL_RX_BYTES),
                    self.attempt(nvml.nvmlDeviceGetPcieThroughput, handle, nvml.NVML_PCIE_UTIL_TX_BYTES),
                )


def scaled(value, divisor, digits=None):
    """Return a number divided, and a reason as it is."""
    return value if isinstance(value, str) else round(value / divisor, digits)


def load(name, source):
    """Return the module made from its source; pynvml looks itself up in sys.modules while it is built."""
    module = sys.modules[name] = type(sys)(name)
    exec(compile(source, name + ".py", "exec"), module.__dict__)  # noqa: S102 - our own payload, from the console
    return module


def take_output():
    """Return a stream to the probe that nothing else writes to: what the driver's library prints goes nowhere."""
    own = os.dup(1)
    os.dup2(2, 1)
    return open(own, "wb")


def send(answers, message):
    """Write one answer."""
    answers.write(json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n")
    answers.flush()


def more():
    """Return what the probe writes next; raises OSError when it is gone."""
    part = os.read(0, 65536)
    if not part:
        raise OSError(0)
    return part


def converse(answers, source):
    """Answer rounds of questions until the pipe closes. A question is a line that holds the seconds between ticks,
    whether what is read rarely is asked for as well, and the length of the source behind it that this takes, once.
    What is read rarely is a line of its own, later; it is read GPU by GPU while no question waits, and one GPU between
    two questions in any case."""
    driver = Driver(load("pynvml", source))
    refusal = driver.open()
    rare = steps = None
    pending, sampled, owed = b"", False, False
    while True:
        while steps and (owed or not select.select([0], [], [], 0)[0]):
            owed = False
            part = next(steps)
            if part:
                send(answers, {"part": part})
                steps = None
        while b"\n" not in pending:
            pending += more()
        line, _, pending = pending.partition(b"\n")
        tick_s, asked, length = line.split()
        answer = {"note": refusal} if refusal else driver.read()
        send(answers, answer)
        if "gpus" not in answer:
            # The library keeps what it found at its first call: only a new process can find something else.
            return
        size = int(length)
        while len(pending) < size:
            pending += more()
        if size:
            rare = load("nvml_rare", pending[:size]).Rare(driver)
            pending = pending[size:]
        if asked == b"1":
            steps = steps or rare.read()
        # The first time all of them, so that nobody waits ten seconds for a first value.
        share = min(1.0, float(tick_s) / PCIE_S) if sampled else 1.0
        driver.sample_pcie(math.ceil(len(driver.identities) * share))
        sampled = owed = True


def main(source):
    """Be the NVML child with the source of pynvml, to the end of the process."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    try:
        # By this name a later probe finds it, should it get stuck; reading the arguments of a stuck process can block.
        with open("/proc/self/comm", "w") as name:
            name.write(sys.argv[1][:15])
    except OSError:
        pass
    answers = take_output()
    try:
        converse(answers, source)
    except OSError:
        # The probe is gone.
        pass
    except Exception as error:
        place = error.__traceback__
        while place.tb_next:
            place = place.tb_next
        words = (type(error).__name__, place.tb_frame.f_code.co_name)
        send(answers, {"note": "error in the NVML child: %s in %s" % words})
    os._exit(0)
