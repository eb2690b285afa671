package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "a",
"clusters": [{"name": "c", "cluster": {"server": "https://c:6443"}}, {"name": "d", "cluster": {"server": "https://d:6443"}}],
"contexts": [{"name": "a", "context": {"cluster": "c"}}, {"name": "b", "context": {"cluster": "d"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for context, host := range map[string]string{"": "https://c:6443", "a": "https://c:6443", "b": "https://d:6443"} {
		c, err := Config(file, context)
		if err != nil {
			t.Fatal(err)
		}
		if c.Host != host || c.UserAgent != "autosched-kube" {
			t.Errorf("context %q: %s as %s", context, c.Host, c.UserAgent)
		}
		if _, err := Open(c); err != nil {
			t.Error(err)
		}
	}
	if _, err := Config(file, "z"); err == nil || !strings.Contains(err.Error(), "z") {
		t.Errorf("a context that is not there: %v", err)
	}
	if _, err := Config(file+".none", ""); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that is not there: %v", err)
	}
}
