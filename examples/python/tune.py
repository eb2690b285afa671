"""Tunes a scheduler that AutoSched does not simulate, by ask and tell: tune.py SERVER ID TRIALS CLIENT.
Any number of clients may run at once. It needs the package: pip install ./python"""
import sys, time

import grpc
from autosched import again, connect
from autosched.v1 import parameter_pb2 as par, scheduler_pb2 as sch, scheduler_pb2_grpc
from autosched.v1 import study_pb2 as st, study_pb2_grpc

if len(sys.argv) != 5: sys.exit(__doc__)
server, scheduler_id, budget, client = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
scheduler, study = "schedulers/" + scheduler_id, "schedulers/" + scheduler_id + "/studies/first"
channel = connect(server)
tuning = scheduler_pb2_grpc.TuningServiceStub(channel)
studies = study_pb2_grpc.StudyServiceStub(channel)

def measure(parameters):  # in place of a test cluster: the 95th percentile of the wait, in seconds
    batch, backoff = parameters["batch"].number_value, parameters["backoff"].number_value
    if batch * backoff > 2000:
        raise MemoryError("the queue of %d jobs does not fit" % batch)
    wait = 30 + abs(batch - 24) + 4 * abs(backoff - 12) ** 0.5
    return wait if parameters["order"].string_value == "las" else 1.5 * wait

def register():
    batch = par.ParameterSpec(parameter_id="batch", scale_type=par.ParameterSpec.LOG,
                              integer_value_spec=par.IntegerValueSpec(min_value=1, max_value=256))
    backoff = par.ParameterSpec(parameter_id="backoff", unit="s",
                                double_value_spec=par.DoubleValueSpec(min_value=1, max_value=60))
    order = par.ParameterSpec(parameter_id="order", categorical_value_spec=par.CategoricalValueSpec(values=["fifo", "las"]))
    batch.default_value.number_value, backoff.default_value.number_value = 4, 30
    order.default_value.string_value = "fifo"
    spec = sch.SchedulerSpec(scheduler_type="external", parameters=[batch, backoff, order],
                             cluster=sch.Cluster(nodes=4, gpus_per_node=8),
                             objective=sch.ObjectiveSpec(metric_id="p95_wait"))
    again(tuning.CreateScheduler, sch.CreateSchedulerRequest(scheduler_id=scheduler_id, scheduler=sch.Scheduler(spec=spec)),
         fine=[grpc.StatusCode.ALREADY_EXISTS])
    again(studies.CreateStudy, st.CreateStudyRequest(parent=scheduler, study_id="first", study=st.Study(
        spec=st.StudySpec(trial_budget=budget, seed=1))), fine=[grpc.StatusCode.ALREADY_EXISTS])

register()
while True:
    asked = again(studies.SuggestTrials, st.SuggestTrialsRequest(parent=study, client_id=client),
                 fine=[grpc.StatusCode.FAILED_PRECONDITION])
    if asked is None:  # the budget is used
        break
    for trial in asked.trials:
        done = st.CompleteTrialRequest(name=trial.name)
        try:
            done.final_measurement.metrics["p95_wait"] = measure(trial.parameters)
        except MemoryError as e:
            done.infeasible_reason = str(e)
        # FAILED_PRECONDITION: the lease expired, and the trial was reported since.
        again(studies.CompleteTrial, done, fine=[grpc.StatusCode.FAILED_PRECONDITION])
    if not asked.trials:
        time.sleep(asked.poll_after.seconds)

while again(studies.ListStudies, st.ListStudiesRequest(parent=scheduler)).studies[0].state == st.Study.ACTIVE:
    time.sleep(0.2)  # other clients hold the last trials
best = again(studies.GetStudy, st.GetStudyRequest(name=study)).best_trial
proposed = again(studies.ProposeTrial, st.ProposeTrialRequest(name=best.name), fine=[grpc.StatusCode.FAILED_PRECONDITION])
print("p95_wait", round(best.final_measurement.metrics["p95_wait"], 1), "with", best.name,
      "proposed as revision %d" % proposed.revision if proposed else "proposed by another client")
