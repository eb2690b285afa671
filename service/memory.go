package service

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// memoryLimit returns the least limit of memory of the control groups (version 2) that a process is in, in bytes, and
// math.MaxInt64 if there is none. It reads proc/self/cgroup and sys/fs/cgroup.
func memoryLimit(root fs.FS) int64 {
	limit := int64(math.MaxInt64)
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return limit
	}
	for line := range strings.Lines(string(text)) {
		group, found := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		if !found {
			continue
		}
		for dir := path.Join("sys/fs/cgroup", group); strings.HasPrefix(dir, "sys/fs/cgroup"); dir = path.Dir(dir) {
			text, err := fs.ReadFile(root, path.Join(dir, "memory.max"))
			if err != nil {
				continue // of the group at the root
			}
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 { // not "max"
				limit = min(limit, n)
			}
		}
	}
	return limit
}
