package slurm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/adapter/slurm"
	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// texts draws one of some texts, often with a part changed, cut off or repeated.
func texts(of ...string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		text := rapid.SampledFrom(of).Draw(t, "text")
		if rapid.IntRange(0, 2).Draw(t, "change") > 0 {
			return text
		}
		at := rapid.IntRange(0, len(text)).Draw(t, "at")
		to := rapid.IntRange(at, len(text)).Draw(t, "to")
		return text[:at] + rapid.StringMatching(`[-a-z0-9,:=/.+\[\]()* ]{0,4}`).Draw(t, "piece") + text[to:]
	})
}

var (
	tresTexts = rapid.Custom(func(t *rapid.T) string {
		item := texts("gres/gpu=2", "gres/gpu=8", "gres/gpu:a100=4", "gres/gpu:1g.10gb=2", "gres/gpu:nvidia_a100_3g.20gb=1",
			"gres/gpu:a30_1g.6gb=3", "gres/mps=30", "gres/shard=5", "cpu=4", "cpu=NONE", "mem=62.5G", "mem=0", "mem=500000M",
			"billing=3", "node=1", "GRES/GPU=1", "gres/gpu=-1", "gres/gpu=10000000", "gres/gpu=1.5", "energy=18446744073709551614")
		return strings.Join(rapid.SliceOfN(item, 0, 5).Draw(t, "items"), ",")
	})
	hostTexts = texts("g1", "g[1-3]", "g[01-03,7],h2", "a[1-9:2]", "a[1,2", "r[1-2]n[1-2]", "None assigned", "", "a[[1]]",
		"gpu[001-020]", "a,,b", "a[3-1]")
	limitTexts = texts("10", "UNLIMITED", "Partition_Limit", "", "1-00:00:00", "60:00", "99999999999", "2-0", "INVALID")
	stateTexts = rapid.SampledFrom([]string{"COMPLETED", "CANCELLED by 1000", "CANCELLED+", "FAILED", "TIMEOUT", "PREEMPTED",
		"NODE_FAIL", "OUT_OF_ME+", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL", "REVOKED", "NEW_STATE"})
	gresTexts = rapid.Custom(func(t *rapid.T) string {
		item := texts("gpu:8", "gpu:a100:4(S:0-1)", "gpu:1g.10gb:7", "gpu:a100_3g.20gb:2(S:0,2)", "shard:16", "mps:400", "gpu",
			"gpu:(null):0(IDX:N/A)", "gpu:2000", "craynetwork:4", "gpu:v100:no_consume:2")
		return strings.Join(rapid.SliceOfN(item, 1, 4).Draw(t, "items"), ",")
	})
	nodeStates = texts("IDLE", "ALLOCATED+DRAIN", "DOWN*", "IDLE+CLOUD+POWERED_DOWN", "MIXED+POWERING_DOWN", "DOWN+DRAIN",
		"FUTURE", "IDLE+MAINT", "IDLE+NOT_RESPONDING", "UNKNOWN", "FAILING*", "DRAINED$", "IDLE+POWER_DOWN+RESERVED")
)

// TestTraceAndPollerAgree: a row of sacct is the same job for a trace and for the live poller, or no job for both.
func TestTraceAndPollerAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.SampledFrom([]int{0, 8}).Draw(t, "shards")
		var b strings.Builder
		b.WriteString("JobIDRaw|JobID|JobName|User|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|ReqTRES|" +
			"AllocTRES|NNodes|NodeList|DBIndex|Suspended\n")
		// One that both have.
		b.WriteString("99|99|n|u|COMPLETED|1000|1000|1010|1100|90|10|gres/gpu=2|gres/gpu:1g.10gb=2|1|g1|0|00:00:00\n")
		hosts := map[string]string{}
		for i := range rapid.IntRange(1, 8).Draw(t, "rows") {
			id, nodes := strconv.Itoa(i+1), hostTexts.Draw(t, "nodes")
			hosts[id] = nodes
			fmt.Fprintf(&b, "%s|%[1]s|n|u|%s|1000|1000|1010|1100|90|%s|%s|%s|1|%s|%[1]s|00:00:00\n", id,
				stateTexts.Draw(t, "state"), limitTexts.Draw(t, "limit"), tresTexts.Draw(t, "requested"),
				tresTexts.Draw(t, "allocated"), nodes)
		}
		rows, _, err := slurm.LiveRows(b.String(), shards)
		if err != nil {
			t.Fatal(err)
		}
		live := map[string]slurm.LiveRow{}
		for _, r := range rows {
			live[r.Key] = r
		}
		w, _, err := trace.Read(t.Context(), strings.NewReader(b.String()), "sacct.psv", trace.Options{Shards: shards, Format: "sacct"})
		var jobs []workload.Job
		if err == nil {
			jobs = w.Jobs()
		}
		if !slices.ContainsFunc(jobs, func(j workload.Job) bool { return j.ID == "99" && j.GPUs%1000 != 0 }) {
			t.Fatalf("the job with a part of a GPU is not among the trace's %d: %v\n%s", len(jobs), err, b.String())
		}
		for _, j := range jobs {
			r, there := live[j.ID]
			delete(live, j.ID)
			nodes, _ := slurmtext.HostList(j.Nodes)
			q := j.Request()
			if !there || r.MilliGPUs != int64(j.GPUs) || r.MilliCPUs != q.MilliCPUs || r.Memory != q.Memory ||
				!slices.Equal(r.Nodes, nodes) || r.Limit != q.TimeLimit || outcomes[r.Outcome] != j.Status {
				t.Errorf("the poller has %+v (%v), and the trace %+v, %+v\n%s", r, there, j, q, b.String())
			}
		}
		for id, r := range live { // the trace rejects a list of nodes that cannot be read, the poller goes on without
			if _, err := slurmtext.HostList(hosts[id]); err == nil || r.Nodes != nil {
				t.Errorf("the poller alone has %+v\n%s", r, b.String())
			}
		}
	})
}

var outcomes = map[slurmtext.Outcome]workload.Status{slurmtext.Undetermined: workload.Unknown,
	slurmtext.Completed: workload.Completed, slurmtext.Cancelled: workload.Cancelled, slurmtext.Failed: workload.Failed,
	slurmtext.TimedOut: workload.TimedOut, slurmtext.OutOfMemory: workload.OutOfMemory}

// TestSiteAndPollerAgree: nodes have as many GPUs for the description of a site as for the live poller, the same are
// up, and the same outages count.
func TestSiteAndPollerAgree(t *testing.T) {
	var shown conf.Shown
	for i, to := range []*[]byte{&shown.Config, &shown.Partitions, &shown.Nodes, &shown.QOS, &shown.Associations} {
		var err error
		*to, err = os.ReadFile(filepath.Join("../../schedulers/slurm/conf/testdata", conf.Commands[i].File))
		if err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		nodes := "NodeName=g1 Gres=gpu:8 CPUTot=1 RealMemory=1 State=IDLE Partitions=a\n"
		events := "NodeName|TimeStart|TimeEnd|State\n"
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			state := nodeStates.Draw(t, "state")
			nodes += fmt.Sprintf("NodeName=g%d Gres=%s CPUTot=1 RealMemory=1 State=%s Partitions=p%[1]d\n", i+2,
				strings.ReplaceAll(gresTexts.Draw(t, "gres"), " ", ""), strings.ReplaceAll(state, " ", ""))
			events += fmt.Sprintf("g%d|%d|%d|%s\n", i+2, 100*i+100, 100*i+150, state)
		}
		gpus, states, err := slurm.LiveNodes(nodes)
		s := shown
		s.Nodes = []byte(nodes)
		site, failed := s.Site()
		if (err == nil) != (failed == nil) {
			for _, n := range gpus {
				if n > workload.MaxGPUsPerNode {
					return // the site has no such nodes
				}
			}
			t.Fatalf("the poller: %v, and the site: %v\n%s", err, failed, nodes)
		}
		if err != nil {
			return
		}
		total, up := 0, 0
		for name, n := range gpus {
			total += n
			if states[name] == "up" {
				up++
			}
		}
		down := 0
		for _, note := range site.Notes {
			if strings.Contains(note, "nodes are down or drained now") {
				down, _ = strconv.Atoi(strings.Fields(note)[0])
			}
		}
		if site.Cluster.TotalGPUs() != total || site.Cluster.Nodes() != len(gpus) || len(gpus)-down != up {
			t.Errorf("the poller has %v, %v, and the site %+v with %d out\n%s", gpus, states, site.Cluster, down, nodes)
		}
		outages, err := slurm.LiveOutages(events)
		if err != nil {
			t.Fatal(err)
		}
		s.Events = []byte(events)
		if site, err = s.Site(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range site.Outages {
			if e.Kind != workload.NodeUp {
				state := "draining"
				if e.Kind == workload.NodeDown {
					state = "down"
				}
				got = append(got, state+" at "+strconv.Itoa(int(e.Time/time.Second)))
			}
		}
		var want []string
		for _, o := range outages {
			name, state, _ := strings.Cut(o, " ")
			if i, _ := strconv.Atoi(name[1:]); gpus[name] > 0 {
				want = append(want, state+" at "+strconv.Itoa(100*(i-2)+100))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the site has %q, and the poller %q\n%s", got, want, events)
		}
	})
}
