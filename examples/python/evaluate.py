"""Measures one configuration for a study that AutoSched runs: a command of serve --evaluators. It reads the
configuration as a line of JSON and prints steps as lines of JSON, the last of which is the result."""
import json, sys

request = json.loads(sys.stdin.readline())
values, metric = request["parameters"], request["metricId"]
print("measuring", values, file=sys.stderr)  # of a failed trial, the end of this is the reason

def say(**step):
    print(json.dumps(step), flush=True)

if values["batch"] > 200:
    say(infeasibleReason="a batch of %d does not fit" % values["batch"])
    sys.exit()
wait = (30 + abs(values["batch"] - 24)) * (1 if values["order"] == "las" else 1.5)
for hour in range(1, 4):  # in place of a test cluster; what was measured so far may stop a poor trial early
    say(measurement={"stepCount": hour, "metrics": {metric: wait + 3 - hour}})
say(finalMeasurement={"stepCount": 4, "metrics": {metric: wait}})
