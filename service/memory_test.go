package service

import (
	"math"
	"testing"
	"testing/fstest"
)

// TestMemoryLimit: the least limit of the group and of its parents counts (N1).
func TestMemoryLimit(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  int64
	}{
		"no groups": {fstest.MapFS{}, math.MaxInt64},
		"in a container": {fstest.MapFS{"proc/self/cgroup": file("0::/\n"),
			"sys/fs/cgroup/memory.max": file("4294967296\n")}, 4 << 30},
		"of systemd": {fstest.MapFS{"proc/self/cgroup": file("0::/system.slice/autosched.service\n"),
			"sys/fs/cgroup/system.slice/autosched.service/memory.max": file("max\n"),
			"sys/fs/cgroup/system.slice/memory.max":                   file("1048576\n")}, 1 << 20},
		"no limit": {fstest.MapFS{"proc/self/cgroup": file("1:memory:/x\n0::/x\n"),
			"sys/fs/cgroup/x/memory.max": file("max\n")}, math.MaxInt64},
	} {
		if got := memoryLimit(c.files); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
