package rig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBuildFails: a failure names the program and the cause, and leaves none that looks as if it were built.
func TestBuildFails(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOPROXY", "off")
	var progress strings.Builder
	err := Build(t.Context(), &progress)
	if err == nil || !strings.Contains(err.Error(), "etcd 3.6.5 cannot be built") ||
		!strings.Contains(err.Error(), "GOPROXY=off") {
		t.Errorf("error: %v", err)
	}
	if !strings.HasPrefix(progress.String(), "kubernetes: 1 of 4, etcd 3.6.5") {
		t.Errorf("progress: %s", &progress)
	}
	dir, err := Bin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "etcd")); err == nil {
		t.Error("etcd is there")
	}
	for o, want := range map[Options]string{{}: "etcd 3.6.5, kube-apiserver 1.35.4 not built",
		{Kueue: true}: "minimalkueue 0.19.2 not built", {Volcano: true}: "kube-apiserver 1.35.4, vc-scheduler 1.15.1 not built"} {
		if why := Missing(o); !strings.Contains(why, want) {
			t.Errorf("missing for %+v: %s", o, why)
		}
	}
}
