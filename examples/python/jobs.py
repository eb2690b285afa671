"""Prints what a scheduler's jobs do: the load, one job and why it waited, tenants, a timeline, forecasts, energy.

    python3 jobs.py ADDRESS SCHEDULER"""
import sys

import autosched
from autosched.v1 import job_pb2, job_pb2_grpc

address, name = sys.argv[1], "schedulers/" + sys.argv[2]
jobs = job_pb2_grpc.JobServiceStub(autosched.connect(address))

load = jobs.GetLoad(job_pb2.GetLoadRequest(name=name + "/load"))
print(f"load: {load.busy_gpus} of {load.total_gpus} GPUs busy")
for job in jobs.ListJobs(job_pb2.ListJobsRequest(parent=name, page_size=3)).jobs:
    why = jobs.ExplainJob(job_pb2.ExplainJobRequest(name=job.name))
    causes = [job_pb2.ExplainJobResponse.Cause.Name(w.cause) for w in why.waits]
    print(f"job: {job.details.job_id} waited {job.wait_duration.ToSeconds()} s: {', '.join(causes) or 'not at all'}")
for t in jobs.ListTenants(job_pb2.ListTenantsRequest(parent=name)).tenants:
    print(f"tenant: {t.tenant or 'none'} {t.gpu_hours:.1f} GPU-hours")
timeline = jobs.GetTimeline(job_pb2.GetTimelineRequest(name=name, rows=job_pb2.GetTimelineRequest.TENANTS, bucket_count=24))
print(f"timeline: {len(timeline.rows)} rows of {len(timeline.rows[0].busy_gpus)} parts")
quality = jobs.GetForecastQuality(job_pb2.GetForecastQualityRequest(name=name))
print(f"forecasts: {len(quality.hours)} hours graded {quality.no_grade_reason}")
energy = jobs.GetEnergy(job_pb2.GetEnergyRequest(name=name))
print(f"energy: {energy.unknown_reason or energy.cluster}")
