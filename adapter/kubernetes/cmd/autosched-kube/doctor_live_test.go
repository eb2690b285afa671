package main

import (
	"strings"
	"testing"

	"github.com/autosched/autosched/adapter/kubernetes/rig"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestLiveDoctor: the diagnosis of an account without rights names the missing ones, an administrator has all.
func TestLiveDoctor(t *testing.T) {
	r := rig.Start(t, rig.Options{})
	for _, c := range []struct {
		user  string
		code  int
		wants []string
	}{
		{"admin", 1, []string{"kueue.x-k8s.io is served as v1beta2", "8 nodes with 64 GPUs", "make queues"}},
		{"reader", 1, []string{"may not get workloads.kueue.x-k8s.io", "-> apply deploy/kubernetes/autosched-kube-reader.yaml"}},
	} {
		code, out, errs := clitest.Run("doctor", "--scheduler", "kueue", "--kubeconfig", r.Kubeconfig(c.user))
		for _, want := range c.wants {
			if code != c.code || !strings.Contains(out, want) {
				t.Errorf("%s: %d %s%s, want %q", c.user, code, out, errs, want)
			}
		}
	}
}
