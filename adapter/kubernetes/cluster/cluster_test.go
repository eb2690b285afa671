package cluster

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestNoConfig: without a file of clusters, and outside a pod, the error names the flag.
func TestNoConfig(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := Config("", ""); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("%v", err)
	}
}
