package slurm

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/space"
)

// TestSlurmSites: a partition that someone closed stays closed, users do not speak for slurmctld, and configless nodes
// live on.
func TestSlurmSites(t *testing.T) {
	l := start(t)
	d := l.open()
	defer d.Close()
	apply := func(age int) error {
		values := space.Values{weightAge: space.Int(age), interval: space.Num(2)}
		_, err := d.Apply(t.Context(), l.configuration(values))
		return err
	}
	must := func(program string, args ...string) string {
		t.Helper()
		out, err := l.Cluster.Run(t.Context(), program, args...)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if err := apply(2000); err != nil {
		t.Fatal(err)
	}
	// By hand.
	for _, change := range [][]string{{"PartitionName=train", "State=DOWN"},
		{"PartitionName=train", "MaxTime=02:00:00"}, {"NodeName=g2", "Weight=77"}} {
		must("scontrol", append([]string{"update"}, change...)...)
		err := apply(3000)
		key, _, _ := strings.Cut(strings.ToLower(change[1]), "=")
		if err == nil || errors.Is(err, client.ErrRefused) || !strings.Contains(err.Error(), key+" is ") {
			t.Errorf("%v: %v", change, err)
		}
		l.inForce(weightAge, "2000")
		must("scontrol", "update", change[0], map[string]string{"state": "State=UP", "maxtime": "MaxTime=7-0",
			"weight": "Weight=1"}[key])
	}
	// Texts of users in slurmctld's log, while a configuration is applied.
	stop := make(chan struct{})
	spoken := make(chan struct{})
	const forged = "x\n[2026-11-27T07:54:48.242] error: Invalid SchedulerParameters bf_interval: 2"
	go func() {
		defer close(spoken)
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
			}
			for _, args := range [][]string{{"--qos=PriorityWeightAge"}, {"-w", "bf_interval"}, {"--qos=" + forged},
				{"-A", forged}, {"-p", forged}, {"-w", forged}, {"--reservation=" + forged}, {"-C", forged},
				{"-L", forged}} {
				args = append(args, "-J", forged, "--wrap=true")
				_, _ = l.RunAs(t.Context(), owner, "sbatch", args...) // slurmctld refuses most
			}
		}
	}()
	time.Sleep(time.Second)
	err := apply(3000)
	close(stop)
	<-spoken
	if err != nil {
		t.Errorf("users are believed: %v", err)
	}
	log, err := os.ReadFile(l.Log())
	if err != nil || !strings.Contains(string(log), "(PriorityWeightAge)") {
		t.Errorf("slurmctld did not log the name of a QOS: %v", err)
	}
	l.inForce(weightAge, "3000")
	// A configless node.
	text, err := os.ReadFile(l.Conf())
	if err != nil {
		t.Fatal(err)
	}
	put := func(include string) {
		if err := os.WriteFile(l.Conf(), []byte(strings.Replace(string(text), "include autosched.conf",
			"SlurmctldParameters=enable_configless\ninclude "+include, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("autosched.conf")
	l.KillController()
	if err := l.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Configless("g4"); err != nil {
		t.Fatal(err)
	}
	idle := func() error {
		if state := must("sinfo", "-h", "-n", "g4", "-o", "%t"); !strings.HasPrefix(state, "idle\n") || l.Ended("g4") {
			return errors.New(state)
		}
		return nil
	}
	l.until("the configless node answers", idle)
	put("autosched/autosched.conf")
	if err := apply(4000); err == nil || !strings.Contains(err.Error(), "configless") {
		t.Errorf("a path where nodes are configless: %v", err)
	}
	l.inForce(weightAge, "3000")
	put("autosched.conf")
	began := time.Now()
	if err := apply(4000); err != nil || time.Since(began) < nodesRead {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	l.inForce(weightAge, "4000")
	if err := idle(); err != nil {
		t.Error(err)
	}
	l.untouched()
}
