package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// recordedService is the directory of a service that recorded a job of scheduler x.
func recordedService(t *testing.T) string {
	dir := t.TempDir()
	address, stop := clitest.StartServe(t, dir)
	jobs := filepath.Join(t.TempDir(), "jobs.csv")
	if err := os.WriteFile(jobs, []byte("job_id,submit_time_s,duration_s,num_gpus\na,0,100,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := clitest.Run("scheduler", "emulate", "--server", address, "--id", "x", "--trace", jobs, "--nodes", "1",
		"--gpus-per-node", "8", "--scheduler", "fifo"); code != 0 {
		t.Fatal(errs)
	}
	stop()
	return dir
}
