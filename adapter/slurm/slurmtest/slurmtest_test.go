package slurmtest_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/adapter/slurm/slurmtest"
)

// TestCluster brings a cluster up, runs a job and leaves nothing behind.
func TestCluster(t *testing.T) {
	slurmtest.Require(t)
	if !slurmtest.Full() {
		t.Skip("other tests bring clusters up")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c, err := slurmtest.Start(ctx, slurmtest.Options{
		Accounts: []slurmtest.Account{{Name: "vc1", Users: []string{"games"}}}, QOS: map[string]int{"high": 100}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	id, err := c.Submit(ctx, slurmtest.Job{Seconds: 1, GPUs: 8, Nodes: 2, User: "games", Account: "vc1", QOS: "high"})
	if err != nil {
		t.Fatal(err)
	}
	for {
		out, err := c.Run(ctx, "sacct", "-X", "-n", "-P", "-j", id, "--format=State,User,Account,QOS,AllocTRES")
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(out), "COMPLETED|games|vc1|high|") && strings.Contains(string(out), "gres/gpu=16") {
			break
		}
		time.Sleep(time.Second)
	}
	dir := filepath.Dir(c.Conf())
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is left: %v", dir, err)
	}
}
