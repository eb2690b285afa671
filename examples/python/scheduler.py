"""A scheduler that registers, streams its events, watches its configuration and acknowledges it:
scheduler.py SERVER ID JOBS. It needs the stubs of `make python-stubs` in PYTHONPATH."""
import sys, threading, time

import grpc
from autosched.v1 import configuration_pb2 as conf, configuration_pb2_grpc, event_pb2 as ev
from autosched.v1 import parameter_pb2 as par, scheduler_pb2 as sch, scheduler_pb2_grpc

if len(sys.argv) != 4: sys.exit(__doc__)
server, scheduler_id, jobs = sys.argv[1], sys.argv[2], int(sys.argv[3])
name = "schedulers/" + scheduler_id
channel = grpc.insecure_channel(server)
tuning = scheduler_pb2_grpc.TuningServiceStub(channel)
config = configuration_pb2_grpc.ConfigurationServiceStub(channel)
running = {"batch": 4}  # what this scheduler runs

def again(call, *args):  # repeats what an absent or busy service did not do
    while True:
        try:
            return call(*args)
        except grpc.RpcError as e:
            if e.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED):
                raise
            time.sleep(1)

def register():
    batch = par.ParameterSpec(parameter_id="batch", module="scheduling", description="jobs of a batch",
                              integer_value_spec=par.IntegerValueSpec(min_value=1, max_value=64))
    batch.default_value.number_value = running["batch"]
    spec = sch.SchedulerSpec(scheduler_type="external", parameters=[batch],
                             cluster=sch.Cluster(nodes=4, gpus_per_node=8),
                             objective=sch.ObjectiveSpec(metric_id="p95_wait"))
    try:
        tuning.CreateScheduler(sch.CreateSchedulerRequest(scheduler_id=scheduler_id, scheduler=sch.Scheduler(spec=spec)))
    except grpc.RpcError as e:
        if e.code() != grpc.StatusCode.ALREADY_EXISTS:
            raise

def watch():
    for m in config.WatchConfigurations(conf.WatchConfigurationsRequest(parent=name, send_initial_events=True)):
        if m.HasField("configuration"):
            c = m.configuration
            running["batch"] = int(c.parameters["batch"].number_value)
            applied = conf.Acknowledgement(state=conf.Acknowledgement.APPLIED)
            config.AcknowledgeConfiguration(conf.AcknowledgeConfigurationRequest(
                name=c.name, content_hash=c.content_hash, epoch=c.epoch, acknowledgement=applied))
            print("revision", c.revision, "in force:", running, flush=True)

def send(events):  # an answer comes once the events are stored; those sent again count once
    request = sch.IngestEventsRequest(parent=name, events=events)
    print(sum(a.accepted_count for a in tuning.IngestEvents(iter([request]))), "events stored", flush=True)

again(register)
threading.Thread(target=again, args=[watch], daemon=True).start()
for i in range(jobs):
    job = ev.Event(event_id="submit-%d" % i, kind=ev.Event.SUBMITTED, job=ev.JobDetails(job_id=str(i), milli_gpus=1000))
    job.scheduler_time.GetCurrentTime()
    again(send, [job])
    time.sleep(0.05)
