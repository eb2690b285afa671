"""Runs a policy of another simulator on a table of jobs, and prints the processor time of its simulation.

Arguments: Tiresias, Lucid or TitanSched, the folder of its repository, the table (id, submit, duration, gpus), the
number of nodes of 8 GPUs, the policy, and a folder for its files. The simulators run unchanged; Tiresias's is of Python
2, and needs three names that Python 3 lacks or that its policies here do not use, and TitanSched's imports packages
for policies that are not run.
"""
import csv
import importlib.abc
import importlib.machinery
import json
import logging
import os
import runpy
import sys
import time
import types

kind, folder, jobs, nodes, policy, out = sys.argv[1:]
rows = list(csv.DictReader(open(jobs)))


def tiresias():
    sys.maxint = sys.maxsize
    for name, members in (("cplex", {}), ("cplex.exceptions", {"CplexError": Exception}), ("cplex.six", {}),
                          ("cplex.six.moves", {"range": range})):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(members)
    with open(out + "/jobs.csv", "w") as f:
        w = csv.writer(f)
        w.writerow(["job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval"])
        for r in rows:
            w.writerow([r["id"], r["gpus"], r["submit"], 1, "resnet50", r["duration"], 0])
    with open(out + "/cluster.csv", "w") as f:
        f.write("num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n1,%s,8,1000,1000\n" % nodes)
    os.chdir(folder + "/simulator")
    sys.path.insert(0, ".")
    sys.argv = ["run_sim.py", "--cluster_spec=" + out + "/cluster.csv", "--scheme=count", "--trace_file=" + out +
                "/jobs.csv", "--schedule=" + policy, "--log_path=" + out + "/log"]
    began = time.process_time()
    runpy.run_path("run_sim.py", run_name="__main__")
    took = time.process_time() - began
    return took, [float(r["JCT"]) for r in csv.DictReader(open(out + "/log/job.csv"))]


def lucid():
    os.chdir(folder + "/simulation")
    sys.path.insert(0, ".")
    import cluster
    import job
    import pandas
    import policy as policies
    trace = job.Trace()
    for r in rows:
        trace.append_job(job.Job(pandas.Series({
            "job_id": r["id"], "user": "u", "vc": "vc", "jobname": "j", "state": "COMPLETED", "gpu_num": int(r["gpus"]),
            "cpu_num": 1, "submit_time": int(r["submit"]), "duration": int(r["duration"]), "remain": int(r["duration"]),
            "start_time": sys.maxsize, "end_time": sys.maxsize, "ckpt_times": 0, "queue": 0, "jct": 0, "status": None,
            "gpu_util": 0, "gmem_util": 0, "gmem": 0, "model": "", "dataset": "", "batchsize": 0, "amp": 0, "speed": 0})))
    trace.sort_jobs("submit_time")
    vc = cluster.Cluster({"vc": int(nodes)}, 8, 96).vc_list[0]
    make = {"fifo": "FirstInFirstOut", "sjf": "ShortestJobFirst", "srtf": "ShortestRemainingTimeFirst",
            "tiresias": "Tiresias"}[policy]
    s = getattr(policies, make)(trace, vc, "consolidate", out, logging.getLogger(), 0)
    began = time.process_time()
    s.simulate()
    return time.process_time() - began, [float(j["end_time"] - j["submit_time"]) for j in trace.job_list]


class Unused(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands for packages that policies import which are not run: every name in them is a class."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("scipy", "pymoo", "mip", "ortools", "autograd"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: type(name, (), {})
        module.__all__ = []
        return module

    def exec_module(self, module):
        pass


def titansched():
    sys.meta_path.insert(0, Unused())
    os.chdir(folder)
    sys.path.insert(0, ".")
    import alg
    from client.job import PreemptJob
    from client.job.base import JobManager
    from server import cluster, meta
    manager = JobManager()
    for r in rows:
        manager.submit_job(PreemptJob(types.SimpleNamespace(name=int(r["id"]), submission_time=int(r["submit"]),
                                                            duration=int(r["duration"]), num_gpus=int(r["gpus"]))))
    for j in manager.job_list:
        j.max_progress = j.total_time_running_exclusively = j.target_duration  # for its files of results
        # Themis asks for the remaining time, which its rigid jobs do not answer: the true one.
        j.predict_remaining_time = lambda n, j=j: (j.target_duration - j.progress) * j.target_num_gpus / n
    manager.prepare_job_start_events()
    size = {"num_switch": 1, "num_node_p_switch": int(nodes), "num_gpu_p_node": 8, "num_cpu_p_node": 128,
            "mem_p_node": 256}
    gpus = cluster.Cluster(**size)
    gpus.init_infra(gpu_kind="V100", **size)
    gpus = meta.MetaCluster({"V100": gpus})
    make = {"yarn-cs": alg.YarnCSScheduler, "tiresias": alg.TiresiasScheduler, "themis": alg.ThemisScheduler}[policy]
    s = make(job_manager=manager, cluster_manager=gpus, user_manager=None, name=policy, logger=logging.getLogger(),
             placement=alg.PlaceMentFactory(cluster_manager=gpus, name="consolidate"), save_dir=out, num_queue=2,
             queue_limit=[4 * 3600, 1000 * 3600], scheduling_time_interval=60, check_time_interval=60,
             lease_term_interval=300)
    began = time.process_time()
    s.run()
    return time.process_time() - began, [float(j.completion_time - j.submission_time) for j in manager.job_list]


took, jcts = {"Tiresias": tiresias, "Lucid": lucid, "TitanSched": titansched}[kind]()
print("\n" + json.dumps({"seconds": took, "jobs": len(jcts), "avg_jct_s": sum(jcts) / len(jcts)}))
