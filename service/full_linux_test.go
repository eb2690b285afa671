package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// TestFullDisk: whichever keeper fills the disk, operators pin and freeze configurations and go back (N3).
func TestFullDisk(t *testing.T) {
	const gpus = 40
	at := time.Duration(time.Now().Add(-100 * time.Hour).Truncate(time.Hour).UnixNano())
	dir := "" // of the writer's test
	raw := func() string {
		return filepath.Join(dir, "telemetry", "s", "raw-"+time.Unix(0, int64(at)).UTC().Format("20060102T15"))
	}
	writers := map[string]func(s *store.Store, kept *samples.Store, n int) error{
		"events": func(s *store.Store, _ *samples.Store, n int) error {
			var all []workload.Event
			for i := range 500 {
				id := fmt.Sprint(n, "-", i)
				all = append(all, workload.Event{ID: id, Kind: workload.Submitted, Time: time.Duration(n),
					Job: workload.Job{ID: id, GPUs: workload.GPUs(1)}})
			}
			return s.AppendEvents(context.Background(), "s", all)
		},
		"samples": func(_ *store.Store, kept *samples.Store, n int) error {
			var all []telemetry.GPUSample
			for g := range gpus {
				all = append(all, telemetry.GPUSample{GPU: telemetry.GPU{Node: strings.Repeat("n", 200), Index: g},
					Time: at + time.Duration(n)*time.Second, UUID: rand.Text() + rand.Text()})
			}
			return kept.Append(context.Background(), "s", all)
		},
		"iterations": func(_ *store.Store, kept *samples.Store, n int) error {
			var all []telemetry.Iteration
			for i := range 1000 {
				all = append(all, telemetry.Iteration{Job: rand.Text() + rand.Text(), Step: i, Took: 1,
					Time: at + time.Duration(n)*time.Minute + time.Duration(i)})
			}
			return kept.AppendIterations(context.Background(), "s", all)
		},
		"rounds": func(s *store.Store, _ *samples.Store, n int) error {
			return s.KeepRound("uid", int64(n+1), make([]byte, 50_000), 1000)
		},
		"reports": func(s *store.Store, _ *samples.Store, n int) error {
			var all []reports.Report
			for i := range 500 {
				all = append(all, reports.Report{Key: reports.Key{Time: time.Unix(int64(n), int64(i)),
					Instance: strings.Repeat("i", 100)}})
			}
			_, _, err := s.AppendReports("uid", all, reports.Keep{Most: 1 << 30})
			return err
		},
		"workloads": func(s *store.Store, kept *samples.Store, n int) error {
			if n == 0 { // an hour that is shed
				var all []telemetry.GPUSample
				for g := range 5000 {
					all = append(all, telemetry.GPUSample{GPU: telemetry.GPU{Node: rand.Text(), Index: g}, Time: at,
						UUID: rand.Text() + rand.Text() + rand.Text() + rand.Text()})
				}
				later := telemetry.GPUSample{Time: at + 5*time.Hour}
				if err := errors.Join(kept.Append(context.Background(), "s", all),
					kept.Append(context.Background(), "s", []telemetry.GPUSample{later})); err != nil {
					return err
				}
				for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
					if _, err := os.Stat(raw()); err == nil {
						break
					} else if time.Now().After(deadline) {
						return fmt.Errorf("no hour to shed: %w", err)
					}
				}
			}
			uid, text := fmt.Sprint("u", n), make([]byte, 300_000) // of two records
			if err := s.ChangeWorkloads(workloads.Change{Scheduler: "s", SchedulerUID: "uid", Text: text,
				Record: workloads.Record{ID: uid, UID: uid}, Audit: &audit.Record{},
				Request: &controller.Request{ID: uid}}); err != nil {
				return err
			}
			if got, err := s.WorkloadText("uid", uid); err != nil || len(got) != len(text) {
				t.Errorf("workload %d: %d bytes, %v", n, len(got), err)
			}
			return nil
		},
	}
	for name, k := range keepers { // findings of a scheduler are bounded
		if writers[name] == nil && name != "findings" && !slices.Contains(k.files, store.ConfigFile) {
			t.Errorf("%s do not fill a disk", name)
		}
	}
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			dir = t.TempDir()
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=12m"); err != nil {
				t.Skip("a file system cannot be mounted here:", err)
			}
			defer func() {
				if err := syscall.Unmount(dir, 0); err != nil {
					t.Error(err)
				}
			}()
			var kept *samples.Store
			s, err := store.Open(dir, store.Options{Shed: func() bool { return kept.Shed() }})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			kept, err = samples.Open(filepath.Join(dir, "telemetry"), samples.Options{Room: s.Room,
				Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer kept.Close()
			c, err := controller.NewService(controller.Options{Store: s, Decide: func(context.Context, round.Input) (
				round.Decision, error) {
				return round.Decision{}, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx := context.Background()
			if _, err := c.Register(ctx, controller.Call{}, controller.Registration{ID: "s", Type: "test",
				Params:    []space.Param{{ID: "n", Kind: space.KindInt, Min: 1, Max: 9, Default: space.Int(3)}},
				Objective: "avg_jct", Cluster: workload.Uniform(1, 1), Policy: controller.DefaultPolicy(),
				Mode: controller.Recommend}); err != nil {
				t.Fatal(err)
			}
			n := 0
			fill := func() error {
				for ; n < 10_000; n++ {
					if err := write(s, kept, n); err != nil {
						return err
					}
				}
				return nil
			}
			if err := fill(); !errors.Is(err, store.ErrFull) {
				t.Fatalf("the disk is not full: %v", err)
			}
			if _, err := os.Stat(raw()); name == "workloads" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("no hour was shed: %v", err)
			}
			// Others take the rest.
			_ = os.WriteFile(filepath.Join(dir, "rest"), make([]byte, 12<<20), 0o600)
			for i := range 60 {
				_, err := c.Pin(ctx, controller.Call{}, "s", rollout.Pin{Reason: "test"}, nil,
					func(sp *space.Space, _ space.Config) (space.Config, error) {
						return sp.Default().With("n", space.Int(1+i%9)), nil
					})
				if err != nil {
					t.Fatalf("pin %d: %v", i, err)
				}
				_, err = c.Modify(ctx, controller.Call{}, "s", func(s *controller.Scheduler) error {
					s.Freeze = &rollout.Freeze{Reason: fmt.Sprint("test ", i)}
					return nil
				})
				if err != nil {
					t.Fatalf("freeze %d: %v", i, err)
				}
				if err := c.Unpin(ctx, controller.Call{}, "s"); err != nil {
					t.Fatalf("unpin %d: %v", i, err)
				}
				if _, err := c.Rollback(ctx, controller.Call{}, "s", rollout.Rollback{To: 1}); err != nil {
					t.Fatalf("rollback %d: %v", i, err)
				}
				if err := write(s, kept, n); err != nil && !errors.Is(err, store.ErrFull) {
					t.Fatal(err)
				}
				n++
			}
		})
	}
}
