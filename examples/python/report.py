"""Reports what a scheduler measures of itself, until it is stored: report.py SERVER ID REPORTS, of a scheduler
that scheduler.py registered. It needs the package: pip install ./python"""
import functools, sys, time

from autosched import Reporter, connect
from autosched.v1 import configuration_pb2 as conf, configuration_pb2_grpc

if len(sys.argv) != 4: sys.exit(__doc__)
channel, name = connect(sys.argv[1]), "schedulers/" + sys.argv[2]
current = configuration_pb2_grpc.ConfigurationServiceStub(channel).GetCurrentConfiguration(
    conf.GetCurrentConfigurationRequest(name=name))
reporter = Reporter(channel, name, log=functools.partial(print, flush=True))
for i in range(int(sys.argv[3])):  # a scheduler reports once in five minutes what it measured since
    reporter.report(current.configuration.revision, p95_wait=30.0 + i % 7, queue_length=i % 5)
    time.sleep(0.05)
reporter.flush()
