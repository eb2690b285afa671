package store

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// The crash test runs this binary again as a child that writes as fast as it
// can and says what was acknowledged, one line each. The parent kills it at
// some moment, opens the directory and looks for all of it. It finds what a
// process loses, not what a power cut does: written pages outlive a process.

const crashDir = "AUTOSCHED_CRASH_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		crashChild(dir)
		return
	}
	os.Exit(m.Run())
}

func crashChild(dir string) {
	die := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	// A day is a few commits long, so that kills hit the making of segments.
	names, err := segmentNames(dir)
	if err != nil {
		die(err)
	}
	commits := 20 * len(names)
	r, err := Open(dir, Options{Now: func() time.Time {
		commits++
		return time.Date(2024, 1, 1+commits/20, 0, 0, 0, 0, time.UTC)
	}})
	if err != nil {
		die(err)
	}
	saved, _, _, err := r.Load()
	if err != nil {
		die(err)
	}
	sp, err := space.New(testParams, nil)
	if err != nil {
		die(err)
	}
	last := int64(0)
	if len(saved) > 0 {
		last = saved[0].Scheduler.LastRevision
	}
	ctx := context.Background()
	for w := range 3 {
		go func() {
			for n := 0; ; n++ {
				batch := make([]workload.Event, 1+rand.IntN(20))
				for i := range batch {
					batch[i] = event(fmt.Sprintf("%d/%d/%d/%d", os.Getpid(), w, n, i), time.Duration(n)*time.Second)
				}
				if err := r.AppendEvents(ctx, "s", batch); err != nil {
					die(err)
				}
				fmt.Printf("e %d/%d/%d %d\n", os.Getpid(), w, n, len(batch))
			}
		}()
	}
	t := &testing.T{}
	for revision := last + 1; ; revision++ {
		if err := r.Commit(ctx, audited(t, sp, revision)); err != nil {
			die(err)
		}
		fmt.Printf("c %d\n", revision)
	}
}

func TestNothingAcknowledgedIsLost(t *testing.T) {
	kills := 25
	if testing.Short() {
		kills = 8
	}
	if n, err := strconv.Atoi(os.Getenv("AUTOSCHED_KILLS")); err == nil {
		kills = n
	}
	dir := t.TempDir()
	acked := map[string]int{} // events by batch
	var lastAcked, lastSeen int64
	unacked := 0
	for kill := range kills {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), crashDir+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		var killOnce sync.Once
		stop := func() { killOnce.Do(func() { _ = child.Process.Kill() }) } // SIGKILL
		watchdog := time.AfterFunc(30*time.Second, stop)
		lines := bufio.NewScanner(out)
		for first := true; lines.Scan(); first = false {
			if first { // it is up: it has some milliseconds left
				time.AfterFunc(time.Duration(rand.IntN(40_000))*time.Microsecond, stop)
			}
			var batch string
			var n int
			if _, err := fmt.Sscanf(lines.Text(), "e %s %d", &batch, &n); err == nil {
				acked[batch] = n
			} else if _, err := fmt.Sscanf(lines.Text(), "c %d", &lastAcked); err != nil {
				t.Fatalf("child said %q", lines.Text())
			}
		}
		watchdog.Stop()
		_ = child.Wait()
		if child.ProcessState.ExitCode() >= 0 {
			t.Fatalf("kill %d: the child ended by itself: %v", kill, child.ProcessState)
		}

		r, err := Open(dir, Options{})
		if err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		saved, _, _, err := r.Load() // checks every CRC and hash, and that no revision is missing
		if err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		now := int64(0)
		if len(saved) > 0 {
			now = saved[0].Scheduler.LastRevision
			for _, c := range saved[0].Configurations {
				if c.State == rollout.Lost {
					t.Fatalf("kill %d: %s", kill, c.Reason)
				}
			}
		}
		if now < lastAcked || now < lastSeen {
			t.Fatalf("kill %d: revision %d after %d was acknowledged and %d was seen", kill, now, lastAcked, lastSeen)
		}
		if now > lastAcked {
			unacked++
		}
		lastSeen = now
		if head, err := checkAudit(r); err != nil || head.Sequence != now {
			t.Fatalf("kill %d: %d revisions, the audit log is at %v: %v", kill, now, head, err)
		}
		found := map[string]int{}
		damage, err := r.ReplayEvents("", func(_ string, e workload.Event) error {
			var pid, w, n, i int
			if _, err := fmt.Sscanf(e.ID, "%d/%d/%d/%d", &pid, &w, &n, &i); err != nil {
				return err
			}
			found[fmt.Sprintf("%d/%d/%d", pid, w, n)]++
			return nil
		})
		if err != nil || len(damage) > 0 {
			t.Fatalf("kill %d: %v %+v", kill, err, damage)
		}
		for batch, n := range acked {
			if found[batch] != n {
				t.Fatalf("kill %d: batch %s was acknowledged with %d events, %d are there",
					kill, batch, n, found[batch])
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf(
		"%d kills: %d revisions and %d batches acknowledged, none lost; %d kills hit between commit and acknowledgement",
		kills, lastAcked, len(acked), unacked)
}
