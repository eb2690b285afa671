package clitest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli"
)

func Process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "AUTOSCHED_TEST_MAIN=1")
	return cmd
}

// Run runs a command line as a user would.
func Run(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Run(context.Background(), NewRoot(), args, &out, &errs)
	return code, out.String(), errs.String()
}
