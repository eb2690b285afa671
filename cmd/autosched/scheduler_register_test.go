package main

import (
	"bytes"
	"testing"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server"
	"github.com/autosched/autosched/schedulers"
)

// TestRegisterCurrent: revision 1, the defaults of what is registered, is the configuration
// that flags name.
func TestRegisterCurrent(t *testing.T) {
	for _, s := range schedulers.All {
		for _, p := range s.Presets {
			spec := &pb.SchedulerSpec{SchedulerType: s.Name, Parameters: server.Parameters(p.Config),
				Cluster: &pb.Cluster{Nodes: 4, GpusPerNode: 8}}
			sp, err := server.CheckRegistration(builtins(),
				&pb.CreateSchedulerRequest{SchedulerId: "x", Scheduler: &pb.Scheduler{Spec: spec}})
			if err != nil {
				t.Errorf("%s, %s: %v", s.Name, p.Name, err)
			} else if got := sp.Default().String(); got != p.Config.String() {
				t.Errorf("%s, %s: %s, want %s", s.Name, p.Name, got, p.Config)
			}
		}
	}
	cmd := newSchedulerCmd()
	cmd.SetArgs([]string{"register", "../../examples/tiresias.yaml", "--set", "queues=4"})
	cmd.SetOut(new(bytes.Buffer))
	cmd.SetErr(new(bytes.Buffer))
	if err := cmd.Execute(); err == nil {
		t.Error("a file with parameters and --set were taken together")
	}
}
