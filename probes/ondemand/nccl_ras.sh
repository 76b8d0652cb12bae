# Asks the communicators of a job, through the process of this node that listens, how they stand: who is missing, and who
# is behind in its collectives. NCCL 2.24 and later answer. It starts no test, and
# the job goes on as it was.
need ncclras
run "$tool" -v -t 10
