package conf_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/workload"
)

// given is the site of the nodes and events of shared/inputs, by their number there.
func given(t *testing.T, nodes, events string) *conf.Site {
	t.Helper()
	var s conf.Shown
	for name, to := range map[string]*[]byte{"base.config.txt": &s.Config, "base.partitions.txt": &s.Partitions,
		nodes: &s.Nodes, events: &s.Events} {
		if name == "" {
			continue
		}
		var err error
		if *to, err = os.ReadFile(testshared.Path(t, "inputs", name)); err != nil {
			t.Fatal(err)
		}
	}
	site, err := s.Site()
	if err != nil {
		t.Fatal(err)
	}
	return site
}

// TestInputs: nodes of 24.05 to 26.05 have the GPUs that README of shared/inputs gives for 17; of 19, nodes that save
// power are up, and so they are in events.
func TestInputs(t *testing.T) {
	s := given(t, "17.nodes.txt", "")
	var gpus []int
	for _, g := range s.Cluster.Groups {
		for range g.Nodes {
			gpus = append(gpus, g.GPUsPerNode)
		}
	}
	slices.Sort(gpus)
	if want := []int{4, 4, 4, 8, 8, 8, 8}; !slices.Equal(gpus, want) {
		t.Errorf("17: GPUs %v, want %v", gpus, want)
	}
	s = given(t, "19.nodes.txt", "19.events.txt")
	if notes := strings.Join(s.Notes, "\n"); strings.Contains(notes, "down") {
		t.Errorf("19: %s", notes)
	}
	var out []string
	for _, e := range s.Outages {
		out = append(out, fmt.Sprint(e.Node, " ", e.Kind, " ", e.Time.Hours()-20513*24))
	}
	if got := strings.Join(out, ", "); got != "0 node_down 0, 1 node_drained 0, 0 node_up 6" {
		t.Errorf("19: outages %s", got)
	}
}

// TestInputsOfConf: 20a is read, and in b and c the line that Slurm refuses, too, is named.
func TestInputsOfConf(t *testing.T) {
	read := func(n string) (*conf.Config, error) {
		return conf.Read(testshared.Path(t, "inputs", n+".slurm.conf"), os.ReadFile)
	}
	c, err := read("20a")
	if err != nil || c.Get("PriorityWeightQOS") != "2000" || c.Get("PriorityWeightAge") != "1000" ||
		!strings.Contains(c.Get("SchedulerParameters"), "bf_max_job_test=1000") {
		t.Errorf("20a: %v, %+v", err, c)
	}
	for _, n := range []string{"20b", "20c"} {
		if _, err := read(n); err == nil || !strings.Contains(err.Error(), n+".conf:2") {
			t.Errorf("%s: %v", n, err)
		}
	}
}

// TestOwnInputs: states of kind 10 of shared/inputs, of Slurm's versions and short forms: power that is saved is no
// outage, and a node that is down or drained as well is out.
func TestOwnInputs(t *testing.T) {
	kinds := map[workload.EventKind]int{}
	for state, want := range map[string]workload.EventKind{
		"IDLE+CLOUD+POWERED_DOWN": 0, "IDLE~": 0, "IDLE+POWERING_DOWN": 0,
		"idle#": 0, "MIXED+CLOUD+POWERING_UP": 0, "IDLE+POWER": 0, "IDLE%": 0,
		"DOWN+CLOUD+POWERED_DOWN": workload.NodeDown,
		"DOWN~":                   workload.NodeDown, "IDLE+CLOUD+NOT_RESPONDING+POWERING_UP": workload.NodeDown,
		"IDLE+DRAIN+POWERED_DOWN": workload.NodeDrained, "DRAINED~": workload.NodeDrained, "DRAINING+CLOUD+POWERING_DOWN": workload.NodeDrained} {
		kinds[want]++
		s := shown(t)
		s.Events = []byte("NodeName|TimeStart|TimeEnd|State\ng1|10|20|" + state + "\n")
		site, err := s.Site()
		if err != nil {
			t.Errorf("%s: %v", state, err)
			continue
		}
		switch {
		case want == 0 && len(site.Outages) > 0, want != 0 && (len(site.Outages) == 0 || site.Outages[0].Kind != want):
			t.Errorf("%s: %+v", state, site.Outages)
		}
	}
	for _, kind := range []workload.EventKind{0, workload.NodeDown, workload.NodeDrained} {
		if kinds[kind] < 3 {
			t.Errorf("%d states are of kind %v, want 3", kinds[kind], kind)
		}
	}
}
