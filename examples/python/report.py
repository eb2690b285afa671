"""Reports what a scheduler measures of itself, until it is stored: report.py SERVER ID REPORTS, of a scheduler
that scheduler.py registered. It needs the stubs of `make python-stubs` in PYTHONPATH."""
import collections, itertools, sys, threading, time

import grpc
from autosched.v1 import configuration_pb2 as conf, configuration_pb2_grpc, metric_pb2 as met, metric_pb2_grpc

class Reporter:
    """Sends reports in batches, in a thread. A scheduler never waits for it: beyond room, reports are dropped."""
    def __init__(self, channel, name, room=10000):
        self.stub, self.name, self.room = metric_pb2_grpc.MetricServiceStub(channel), name, room
        self.waiting, self.dropped, self.change = collections.deque(), 0, threading.Condition()
        threading.Thread(target=self.run, daemon=True).start()

    def report(self, revision, **metrics):
        r = met.MetricReport(configuration_revision=revision, metrics=metrics)
        r.scheduler_time.GetCurrentTime()  # with the instance what identifies it: one sent again counts once
        with self.change:
            if len(self.waiting) >= self.room:
                self.dropped += 1
                return
            if self.dropped:
                print(self.dropped, "reports were dropped", flush=True)
            self.dropped = 0
            self.waiting.append(r)
            self.change.notify_all()

    def flush(self):
        with self.change:
            self.change.wait_for(lambda: not self.waiting)

    def run(self):
        while True:
            with self.change:
                self.change.wait_for(lambda: self.waiting)
                batch = list(itertools.islice(self.waiting, 1000))
            try:
                request = met.ReportMetricsRequest(parent=self.name, reports=batch)
                for a in self.stub.ReportMetrics(iter([request])):
                    print(a.accepted_count, "reports stored", flush=True)
                    for bad in a.rejected_reports:
                        print("rejected:", bad.field, bad.description, flush=True)
            except grpc.RpcError as e:  # what an operator mends, such as a role, works later, too
                print("again after", e.code().name, flush=True)
                time.sleep(1)
                continue
            with self.change:
                for _ in batch:
                    self.waiting.popleft()
                self.change.notify_all()

if __name__ == "__main__":
    if len(sys.argv) != 4: sys.exit(__doc__)
    channel, name = grpc.insecure_channel(sys.argv[1]), "schedulers/" + sys.argv[2]
    current = configuration_pb2_grpc.ConfigurationServiceStub(channel).GetCurrentConfiguration(
        conf.GetCurrentConfigurationRequest(name=name))
    reporter = Reporter(channel, name)
    for i in range(int(sys.argv[3])):  # a scheduler reports once in five minutes what it measured since
        reporter.report(current.configuration.revision, p95_wait=30.0 + i % 7, queue_length=i % 5)
        time.sleep(0.05)
    reporter.flush()
