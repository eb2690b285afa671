package checkup

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	var r Report
	r.Add(OK, "disk", "free space", "%d MiB are free", 7)
	r.Warn("clock", "set the clock", "it is %s late", "5s")
	if err := r.Err(); err != nil {
		t.Errorf("a warning fails: %v", err)
	}
	r.Fail("files", "", "%s is damaged", "config.db")
	r.Fail("lock", "stop the service", "locked")
	if err := r.Err(); err == nil || err.Error() != "2 checks failed" {
		t.Errorf("error is %v", err)
	}
	var b strings.Builder
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	want := `ok    disk          7 MiB are free
warn  clock         it is 5s late
                    -> set the clock
fail  files         config.db is damaged
fail  lock          locked
                    -> stop the service
`
	if b.String() != want {
		t.Errorf("printed\n%swant\n%s", b.String(), want)
	}
}

func TestDisk(t *testing.T) {
	for free, want := range map[uint64]Status{0: Fail, 64<<20 - 1: Fail, 64 << 20: Warn, 1<<30 - 1: Warn, 1 << 30: OK} {
		if got := Disk(free); got != want {
			t.Errorf("%d bytes: %s, want %s", free, got, want)
		}
	}
}
