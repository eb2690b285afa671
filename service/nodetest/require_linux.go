package nodetest

import (
	"os"
	"os/exec"
	"testing"
)

// Require skips a test where no network namespaces and loop devices can be made, or fails it if
// AUTOSCHED_REQUIRE_NETNS is 1.
func Require(t testing.TB) {
	t.Helper()
	reason := ""
	for _, program := range []string{"ip", "mkfs.ext4", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			reason = err.Error()
		}
	}
	if os.Geteuid() != 0 {
		reason = "the user is not root"
	}
	if reason == "" {
		if n, err := NewNet(1); err != nil {
			reason = err.Error()
		} else if err := n.Close(); err != nil {
			reason = err.Error()
		}
	}
	if reason == "" {
		return
	}
	if os.Getenv("AUTOSCHED_REQUIRE_NETNS") == "1" {
		t.Fatal("no nodes in network namespaces: ", reason)
	}
	t.Skip("no nodes in network namespaces: ", reason)
}

// RequireFUSE is Require where a FUSE file system can be mounted, too; AUTOSCHED_REQUIRE_FUSE is 1 where it must be.
func RequireFUSE(t testing.TB) {
	t.Helper()
	Require(t)
	server, err := newBlocks(blockSize).mount(t.TempDir())
	switch {
	case err == nil:
		if err := server.Unmount(); err != nil {
			t.Fatal(err)
		}
	case os.Getenv("AUTOSCHED_REQUIRE_FUSE") == "1":
		t.Fatal("no file system can be mounted with FUSE: ", err)
	default:
		t.Skip("no file system can be mounted with FUSE: ", err)
	}
}
