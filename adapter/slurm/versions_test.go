package slurm

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/schedulers/slurm/conf"
)

// TestLaterVersions reads listings of Slurm 25.05, written after its manual and source: further fields, states and
// reasons leave the known ones as they are.
func TestLaterVersions(t *testing.T) {
	text := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join("testdata", "25.05", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want := diagnostics{now: time.Unix(1795401357, 0).UTC(), queue: 7, backfill: 2867 * time.Microsecond,
		meanCycle: 2500 * time.Microsecond}
	if d := diagnosticsOf(text("sdiag")); d != want {
		t.Errorf("sdiag: %+v, want %+v", d, want)
	}
	nodes, _, err := nodesOf(text("nodes"))
	if err != nil || !slices.Equal(nodes, []node{{"g1", 8, "up"}, {"g2", 8, "draining"}}) {
		t.Errorf("nodes: %v %v", nodes, err)
	}
	config, err := conf.ReadShown("config", []byte(text("config")))
	if err != nil || !startsAnew(config) || triedWith(config) || !config.Configless() || wake(config) != 5*time.Second {
		t.Errorf("config: %v %v", config, err)
	}
	if site := config.Site([]string{interval})[conf.SchedulerParameters]; !slices.Equal(site, []string{"bf_continue",
		"bf_topopt_enable", "bf_allow_magnetic_slot"}) {
		t.Errorf("options of the site: %v", site)
	}
	up := map[string]bool{}
	for _, p := range pinged.FindAllStringSubmatch(text("config"), -1) {
		up[p[1]] = p[3] == "UP"
	}
	if !maps.Equal(up, map[string]bool{"primary": true, "backup": false}) {
		t.Errorf("controllers: %v", up)
	}
	waits := map[string]bool{"11": true, "12": true, "13": false, "14": false, "15": false, "16_3": false,
		"16_4": false, "17": false, "18": true}
	reasons := reasonsOf(text("squeue"))
	for key, may := range waits {
		if reason, there := reasons[key]; !there || withheld(reason) == may {
			t.Errorf("%s waits for the scheduler: %v, of %q", key, !may, reason)
		}
	}
	f := newFakeAccounting(t)
	f.write("bin/scontrol", "#!/bin/sh\ncat \""+f.dir+"/$3s.txt\"\n")
	f.write("nodes.txt", text("nodes"))
	f.write("partitions.txt", text("partitions"))
	f.write("slurm.conf", "NodeSet=all Nodes=ALL\nNodeName=g[1-3] Gres=gpu:h100:8 Weight=5 Topology=default:s1\n"+
		"NodeName=g2 Feature=nvlink\nPartitionName=train Nodes=ALL Default=YES DefaultTime=10 MaxTime=7-0 Topology=default\n")
	if changed, err := (Commands{}).undone(t.Context(), filepath.Join(f.dir, "slurm.conf"), config); err != nil ||
		len(changed) > 0 {
		t.Errorf("changed by hand: %q %v", changed, err)
	}
	for _, r := range slurmtext.Records(text("nodes"), "nodename") {
		if r["nodename"] == "g1" && (r["port"] != "28211" || r["state"] != "MIXED+BLOCKED" || r["weight"] != "5") {
			t.Errorf("%v", r)
		}
	}
}
