package slurmtest_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
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
	// A job goes on in a process group of its own; a shell of someone else names the cluster, too.
	if _, err := c.Submit(ctx, slurmtest.Job{Seconds: 1000, GPUs: 1, User: "games", Account: "vc1"}); err != nil {
		t.Fatal(err)
	}
	shell := exec.Command("sleep", "1000")
	shell.Env = append(os.Environ(), "SLURM_CONF="+c.Conf())
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- shell.Wait() }()
	defer func() { _ = shell.Process.Kill() }()
	for jobs := 0; jobs == 0; time.Sleep(100 * time.Millisecond) {
		if jobs = sleepers(t, c); ctx.Err() != nil {
			t.Fatal("the job does not start")
		}
	}
	dir := filepath.Dir(c.Conf())
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is left: %v", dir, err)
	}
	if n := sleepers(t, c); n > 0 {
		t.Errorf("%d processes of jobs are left", n)
	}
	select {
	case err := <-ended:
		t.Errorf("a shell was ended: %v", err)
	default:
	}
}

// sleepers counts the processes of jobs.
func sleepers(t *testing.T, c *slurmtest.Cluster) (n int) {
	t.Helper()
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range commands {
		text, _ := os.ReadFile(path) // it may have ended
		if strings.Contains(string(text), filepath.Dir(c.Conf())+"/spool/") || string(text) == "sleep\x001000\x00" {
			environ, _ := os.ReadFile(filepath.Dir(path) + "/environ")
			if strings.Contains(string(environ), "SLURM_JOB_ID=") && strings.Contains(string(environ), c.Conf()) {
				n++
			}
		}
	}
	return n
}
