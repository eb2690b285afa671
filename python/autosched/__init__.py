"""Clients of AutoSched. autosched.v1 has the messages and services of the API, this module helpers for them:
https://github.com/autosched/autosched/blob/main/docs/clients.md."""
import collections, itertools, threading, time, uuid

import grpc

from autosched.v1 import metric_pb2, metric_pb2_grpc

BUSY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)


def connect(address, ca=None, token=None, cert=None, key=None):
    """Returns a channel to a service. ca is the file of its authority, cert and key are the files of a client
    certificate, token is the text of a token. Without ca the connection is plain, for a service on loopback."""
    def read(path):
        if path is None:
            return None
        with open(path, "rb") as f:
            return f.read()
    if ca is None:
        if token or cert or key:
            raise ValueError("a token or a certificate needs ca: a plain connection would show it")
        return grpc.insecure_channel(address)
    credentials = grpc.ssl_channel_credentials(read(ca), read(key), read(cert))
    if token:
        credentials = grpc.composite_channel_credentials(credentials, grpc.access_token_call_credentials(token))
    return grpc.secure_channel(address, credentials)


def again(call, *args, fine=(), wait=1.0):
    """Calls until the service is neither absent nor busy. The codes in fine return None. A change is made once, however
    often it is sent, where its request has a request_id."""
    for request in args:
        if "request_id" in getattr(getattr(request, "DESCRIPTOR", None), "fields_by_name", ()):
            request.request_id = request.request_id or str(uuid.uuid4())
    while True:
        try:
            return call(*args)
        except grpc.RpcError as e:
            if e.code() in fine:
                return None
            if e.code() not in BUSY:
                raise
            time.sleep(wait)


class Reporter:
    """Reports metrics of a scheduler in batches, in a thread, until they are stored. A scheduler never waits for it:
    beyond room, reports are dropped. log receives what happens."""

    def __init__(self, channel, name, room=10000, log=lambda *text: None):
        self.stub, self.name, self.room, self.log = metric_pb2_grpc.MetricServiceStub(channel), name, room, log
        self.waiting, self.dropped, self.change = collections.deque(), 0, threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def report(self, revision, **metrics):
        """Reports metrics, by name, under a revision of the configuration, measured now."""
        r = metric_pb2.MetricReport(configuration_revision=revision, metrics=metrics)
        r.scheduler_time.GetCurrentTime()  # with the instance what identifies it: one sent again counts once
        with self.change:
            if len(self.waiting) >= self.room:
                self.dropped += 1
                return
            if self.dropped:
                self.log(self.dropped, "reports were dropped")
            self.dropped = 0
            self.waiting.append(r)
            self.change.notify_all()

    def flush(self):
        """Returns once all reports are stored."""
        with self.change:
            self.change.wait_for(lambda: not self.waiting)

    def _run(self):
        while True:
            with self.change:
                self.change.wait_for(lambda: self.waiting)
                batch = list(itertools.islice(self.waiting, 1000))
            try:
                request = metric_pb2.ReportMetricsRequest(parent=self.name, reports=batch)
                for a in self.stub.ReportMetrics(iter([request])):
                    self.log(a.accepted_count, "reports stored")
                    for bad in a.rejected_reports:
                        self.log("rejected:", bad.field, bad.description)
            except grpc.RpcError as e:  # what an operator mends, such as a role, works later, too
                self.log("again after", e.code().name)
                time.sleep(1)
                continue
            with self.change:
                for _ in batch:
                    self.waiting.popleft()
                self.change.notify_all()
