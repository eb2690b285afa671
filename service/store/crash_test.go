package store

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// The crash test runs this binary again as a child that writes as fast as it can and prints a line for each
// acknowledgement. The parent kills it at some moment, opens the directory and looks for all records. The test finds
// the losses of a process, not of a power cut: written pages outlive a process.

const (
	crashDir    = "AUTOSCHED_CRASH_TEST_DIR"
	crashFollow = "AUTOSCHED_CRASH_TEST_FOLLOW" // the directory is a replica
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if os.Getenv(crashFollow) != "" {
			followChild(dir)
		}
		crashChild(dir)
		return
	}
	if dir := os.Getenv(checkDir); dir != "" {
		checkChild(dir)
		return
	}
	code := m.Run()
	for _, dir := range leftovers {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
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
	var commits atomic.Int64
	commits.Store(int64(20 * len(names)))
	r, err := Open(dir, Options{Now: func() time.Time {
		return time.Date(2024, 1, 1+int(commits.Add(1))/20, 0, 0, 0, 0, time.UTC)
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
	go func() {
		for ; ; time.Sleep(50 * time.Millisecond) {
			if _, _, err := r.Compact(ctx); err != nil {
				die(err)
			}
		}
	}()
	t := &testing.T{}
	for revision := last + 1; ; revision++ {
		if err := r.Commit(ctx, audited(t, sp, revision)); err != nil {
			die(err)
		}
		fmt.Printf("c %d\n", revision)
		if revision%5 == 0 {
			if err := r.ArchiveAudit(ctx, time.Time{}); err != nil {
				die(err)
			}
		}
	}
}

// acked has the acknowledgements of a child, in order.
type acked struct {
	batches  []ackedBatch
	revision int64 // the last one; 0 before the first
	follows  bool  // the child's directory is a replica
	entry    uint64
}

type ackedBatch struct {
	name   string
	events int
}

// line adds a line of a child's output.
func (a *acked) line(text string) error {
	var b ackedBatch
	if _, err := fmt.Sscanf(text, "e %s %d", &b.name, &b.events); err == nil {
		a.batches = append(a.batches, b)
	} else if _, err := fmt.Sscanf(text, "a %d", &a.entry); err == nil {
		return nil
	} else if _, err := fmt.Sscanf(text, "c %d", &a.revision); err != nil {
		return fmt.Errorf("child said %q", text)
	}
	return nil
}

// check opens a directory and looks for all that was acknowledged, and for halves of anything. It
// returns the last revision.
func (a *acked) check(dir string) (revision int64, err error) {
	if a.follows {
		return 0, a.checkReplica(dir)
	}
	r, err := Open(dir, Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	saved, _, damage, err := r.Load() // checks every CRC and hash, and that no revision is missing
	if err != nil || len(damage) > 0 {
		return 0, fmt.Errorf("load: %w, %+v", err, damage)
	}
	for _, s := range saved {
		if revision = s.Scheduler.LastRevision; s.Fault != nil {
			return 0, s.Fault
		}
		for _, c := range s.Configurations {
			if c.State == rollout.Lost {
				return 0, errors.New(c.Reason)
			}
		}
	}
	if revision < a.revision {
		return 0, fmt.Errorf("revision %d after %d was acknowledged", revision, a.revision)
	}
	records := int64(0) // of revisions, besides anchors
	if err := r.Audit(0, false, func(_ int64, line []byte, err error) bool {
		if bytes.Contains(line, []byte(`"revision_after":0`)) {
			return true
		}
		records++
		return err == nil
	}); err != nil || records != revision {
		return 0, fmt.Errorf("%d audit records of %d revisions, %w", records, revision, err)
	}
	if _, err := checkAudit(r); err != nil {
		return 0, err
	}
	found := map[string]int{}
	damage, err = r.ReplayEvents("", func(_ string, e workload.Event) error {
		i := strings.LastIndexByte(e.ID, '/')
		found[e.ID[:i]]++
		return nil
	})
	if err != nil || len(damage) > 0 {
		return 0, fmt.Errorf("replay: %w, %+v", err, damage)
	}
	for _, b := range a.batches {
		if found[b.name] != b.events {
			return 0, fmt.Errorf("batch %s was acknowledged with %d events, %d are there", b.name, b.events,
				found[b.name])
		}
	}
	return revision, nil
}

// crashing is a child that writes to a directory.
type crashing struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func startCrashing(t *testing.T, dir string, env ...string) *crashing {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(append(os.Environ(), crashDir+"="+dir), env...)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	return &crashing{child, bufio.NewScanner(out)}
}

// killed waits for a child that was killed.
func (c *crashing) killed(t *testing.T) {
	t.Helper()
	_ = c.Wait()
	if c.ProcessState.ExitCode() >= 0 {
		t.Fatalf("the child ended by itself: %v", c.ProcessState)
	}
}

func TestNothingAcknowledgedIsLost(t *testing.T) {
	kills := 25
	if testing.Short() {
		kills = 8
	}
	tally := testshared.NewTally(t, "AUTOSCHED_KILLS", kills)
	var a acked
	var lastSeen int64
	dir, unacked := "", 0
	for kill := 0; tally.Left() > 0; kill++ {
		if kill%200 == 0 {
			dir, a, lastSeen = t.TempDir(), acked{}, 0
		}
		upgrades := kill%200 > 0 && kill%2 == 0 // kills hit the upgrade of a directory, too
		if upgrades {
			asLayout1(t, dir)
		}
		child := startCrashing(t, dir)
		var killOnce sync.Once
		stop := func() { killOnce.Do(func() { _ = child.Process.Kill() }) } // SIGKILL
		watchdog := time.AfterFunc(2*time.Minute, stop)
		if upgrades && kill%4 == 0 {
			time.AfterFunc(time.Duration(rand.IntN(60_000))*time.Microsecond, stop)
		}
		for first := true; child.lines.Scan(); first = false {
			if first { // it is up: it has some milliseconds left
				time.AfterFunc(time.Duration(rand.IntN(40_000))*time.Microsecond, stop)
			}
			if err := a.line(child.lines.Text()); err != nil {
				t.Fatal(err)
			}
		}
		watchdog.Stop()
		child.killed(t)
		now, err := a.check(dir)
		if err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		if now < lastSeen {
			t.Fatalf("kill %d: revision %d after %d was seen", kill, now, lastSeen)
		}
		if now > a.revision {
			unacked++
		}
		lastSeen = now
		tally.Add(1)
	}
	t.Logf("%d kills, none lost anything; %d hit between commit and acknowledgement", tally.Here(), unacked)
}
