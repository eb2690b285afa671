package clitest

import (
	"bufio"
	"io"
	"os/exec"
	"regexp"
	"testing"
)

// ServeProcess starts the service as a process of its own.
func ServeProcess(t *testing.T, dir, listen string, more ...string) (*exec.Cmd, string) {
	t.Helper()
	serve := Process(t, append([]string{"serve", "--dir", dir, "--listen", listen, "--workers", "1"}, more...)...)
	log, err := serve.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Process.Kill() })
	find := regexp.MustCompile(`msg=serving address=(\S+)`)
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if m := find.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return serve, m[1]
		}
	}
	t.Fatalf("serve ended: %v", serve.Wait())
	return nil, ""
}
