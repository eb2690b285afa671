package serve

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestAudit lists, exports and verifies the changes of operators, here and in the data directory.
func TestAudit(t *testing.T) {
	dir := t.TempDir()
	address, stop := clitest.StartServe(t, dir)
	call := func(cmd *cobra.Command, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if err := clitest.RunClient(t.Context(), cmd, "", &out, append(args, "--server", address)...); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	call(clitest.Cmd("scheduler"), "register", "--builtin", "tiresias", "--nodes", "4", "--gpus-per-node", "8",
		"--id", "s")
	call(clitest.Cmd("scheduler"), "register", "--builtin", "fifo", "--nodes", "4", "--gpus-per-node", "8", "--id", "other")
	call(clitest.Cmd("scheduler"), "update", "s", "--mode", "auto", "--budget", "50", "--reason", "trusted since März")
	list := call(newAuditCmd(), "list", "s")
	for _, want := range []string{`\n3 .* UpdateScheduler +s +1 to 1 +trusted since März +mode policy.budget\n`,
		`\n1 .* anonymous +CreateScheduler +s +0 to 1 +the registered defaults +acknowledged cluster created \+\d+\n`} {
		if !regexp.MustCompile(want).MatchString(list) || strings.Contains(list, "other") {
			t.Errorf("audit list:\n%s, want %s", list, want)
		}
	}
	if list := call(newAuditCmd(), "list", "--limit", "1"); strings.Contains(list, "CreateScheduler") {
		t.Errorf("admin audit list --limit 1:\n%s", list)
	}
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	call(newAuditCmd(), "export", "-o", file)
	err := clitest.RunClient(t.Context(), newAuditCmd(), "", io.Discard, "export", "-o", file, "--server", address)
	if err == nil ||
		!strings.Contains(err.Error(), "exists already") {
		t.Errorf("admin audit export to a file that is there: %v", err)
	}
	stop()

	says := regexp.MustCompile(`^3 records, unbroken; the head is ([0-9a-f]{64})\n$`)
	code, out, errs := clitest.Run("admin", "audit", "verify", file)
	head := says.FindStringSubmatch(out)
	if code != 0 || head == nil {
		t.Fatal(code, out, errs)
	}
	if code, out, errs := clitest.Run("admin", "audit", "verify", "--dir", dir, "--head",
		head[1]); code != 0 ||
		!says.MatchString(out) {
		t.Error(code, out, errs)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	short, altered := filepath.Join(t.TempDir(), "short"), filepath.Join(t.TempDir(), "altered")
	for path, text := range map[string]string{short: lines[0] + lines[1],
		altered: lines[0] + strings.Replace(lines[1], "anonymous", "alice", 1) + lines[2]} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{altered, 1, "audit log is broken at record 2: its SHA-256 is"},
		{short + " --head " + head[1], 1, "none of its 2 records has the hash " + head[1]},
		{short, 0, ""},
		{file + " --dir " + dir, 2, "either a file or a directory"},
		{"", 2, "either a file or a directory"},
		{file + " " + file, 2, "takes one file"},
		{file + " --head abc", 2, "--head"},
		{"none", 1, "none"},
		{"--dir " + t.TempDir(), 1, "is not the directory of a service"},
	} {
		code, _, errs := clitest.Run(append([]string{"admin", "audit", "verify"},
			strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("admin audit verify %s: exit %d, %s; want %d, %q", c.args, code, errs, c.code, c.says)
		}
	}
}
