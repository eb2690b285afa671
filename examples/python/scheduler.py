"""A scheduler that registers, streams its events, watches its configuration and acknowledges it:
scheduler.py SERVER ID JOBS. It needs the package: pip install ./python"""
import sys, threading, time, uuid

import grpc
from autosched import again, connect
from autosched.v1 import configuration_pb2 as conf, configuration_pb2_grpc, event_pb2 as ev
from autosched.v1 import parameter_pb2 as par, scheduler_pb2 as sch, scheduler_pb2_grpc

if len(sys.argv) != 4: sys.exit(__doc__)
server, scheduler_id, jobs = sys.argv[1], sys.argv[2], int(sys.argv[3])
name = "schedulers/" + scheduler_id
channel = connect(server)
tuning = scheduler_pb2_grpc.TuningServiceStub(channel)
config = configuration_pb2_grpc.ConfigurationServiceStub(channel)
running, epoch = {"batch": 4}, 0  # what this scheduler runs, and the epoch counter that it came with
start = uuid.uuid4().hex + "-"  # of the ids of this process: no other one sends them with other content

def watch():
    global epoch
    for m in config.WatchConfigurations(conf.WatchConfigurationsRequest(parent=name, send_initial_events=True)):
        c = m.configuration
        if not m.HasField("configuration") or c.epoch.counter < epoch: continue  # lower: an old copy of the store
        answer = conf.Acknowledgement(state=conf.Acknowledgement.APPLIED)
        if set(c.parameters) == set(running):
            running["batch"], epoch = int(c.parameters["batch"].number_value), c.epoch.counter
            print("revision", c.revision, "in force:", running, flush=True)
        else:
            answer = conf.Acknowledgement(state=conf.Acknowledgement.REJECTED, error="parameters that it does not have")
        again(config.AcknowledgeConfiguration, conf.AcknowledgeConfigurationRequest(
            name=c.name, content_hash=c.content_hash, epoch=c.epoch, acknowledgement=answer),
            fine=[grpc.StatusCode.FAILED_PRECONDITION])  # the watch offers something else

def send(event):  # an answer comes once the event is stored; one that is sent again counts once
    request = sch.IngestEventsRequest(parent=name, events=[event])
    print(sum(a.accepted_count for a in tuning.IngestEvents(iter([request]))), "events stored", flush=True)

batch = par.ParameterSpec(parameter_id="batch", module="scheduling", description="jobs of a batch",
                          integer_value_spec=par.IntegerValueSpec(min_value=1, max_value=64))
batch.default_value.number_value = running["batch"]
spec = sch.SchedulerSpec(scheduler_type="external", parameters=[batch], cluster=sch.Cluster(nodes=4, gpus_per_node=8),
                         objective=sch.ObjectiveSpec(metric_id="p95_wait"))
again(tuning.CreateScheduler, sch.CreateSchedulerRequest(scheduler_id=scheduler_id, scheduler=sch.Scheduler(spec=spec)),
      fine=[grpc.StatusCode.ALREADY_EXISTS])
threading.Thread(target=again, args=[watch], daemon=True).start()
for i in range(jobs):
    job = ev.JobDetails(job_id=start + str(i), milli_gpus=1000)
    event = ev.Event(event_id=job.job_id, kind=ev.Event.SUBMITTED, job=job)
    event.scheduler_time.GetCurrentTime()
    again(send, event)
    time.sleep(0.05)
