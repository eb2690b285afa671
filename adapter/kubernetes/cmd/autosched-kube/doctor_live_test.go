package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/adapter/kubernetes/rig"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// TestLiveDoctor: the diagnosis of an account without rights names the missing ones, an administrator has all.
func TestLiveDoctor(t *testing.T) {
	r := rig.Start(t, rig.Options{})
	if err := r.Create(t.Context(), []byte(`{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: a},
 spec: {resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: gpu, resources: [{name: nvidia.com/gpu,
  nominalQuota: 8}]}]}]}}`)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		user  string
		code  int
		wants []string
	}{
		{"admin", 0, []string{"kueue.x-k8s.io is served as v1beta2", "8 nodes with 64 GPUs",
			"borrowingLimit of a: the queue is in no cohort: the setting has no effect",
			"the adapter has set nothing"}},
		{"reader", 1, []string{"may not get workloads.kueue.x-k8s.io",
			"-> apply deploy/kubernetes/autosched-kube-reader.yaml"}},
	} {
		code, out, errs := clitest.Run("doctor", "--scheduler", "kueue", "--kubeconfig", r.Kubeconfig(c.user))
		for _, want := range c.wants {
			if code != c.code || !strings.Contains(out, want) {
				t.Errorf("%s: %d %s%s, want %q", c.user, code, out, errs, want)
			}
		}
	}
}

// TestLiveInit: a folder is written from the objects of a cluster, of which no field is the adapter's.
func TestLiveInit(t *testing.T) {
	r := rig.Start(t, rig.Options{Kueue: true})
	queues, err := os.ReadFile(testshared.Path(t, "golden", "kubernetes", "queues", "kueue.limits.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Create(t.Context(), queues); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	code, out, errs := clitest.Run("init", "--scheduler", "kueue", "--kubeconfig", r.Kubeconfig("admin"), "--out", dir)
	for _, want := range []string{"8 nodes", "0 jobs of the past", "history.json", "fair sharing is on is not known"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%d %s%s, want %q", code, out, errs, want)
		}
	}
	code, out, errs = clitest.Run("release", "--scheduler", "kueue", "--kubeconfig", r.Kubeconfig("admin"), "--restore")
	if code != 0 || !strings.Contains(out, "the fields are given back") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	text, err := os.ReadFile(filepath.Join(dir, "current.yaml"))
	if err != nil || !strings.Contains(string(text), "borrowingLimit") {
		t.Errorf("%v %s", err, text)
	}
}

// TestLiveInitVolcano: a folder is written from the objects of a cluster under Volcano.
func TestLiveInitVolcano(t *testing.T) {
	r := rig.Start(t, rig.Options{Volcano: true})
	queues, err := os.ReadFile(testshared.Path(t, "golden", "kubernetes", "queues", "volcano.weights.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Create(t.Context(), queues); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := []string{"init", "--scheduler", "volcano", "--kubeconfig", r.Kubeconfig("admin"), "--out", dir}
	if code, _, errs := clitest.Run(args...); code != 1 || !strings.Contains(errs, "which --conf can name") {
		t.Errorf("without a ConfigMap: %d %s", code, errs)
	}
	code, out, errs := clitest.Run(append(args, "--conf", r.Conf())...)
	if code != 0 || !strings.Contains(out, "8 nodes") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	text, err := os.ReadFile(filepath.Join(dir, "current.yaml"))
	if err != nil || !strings.Contains(string(text), "tenant-0.weight: 4\n") {
		t.Errorf("%v %s", err, text)
	}
}
