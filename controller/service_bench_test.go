package controller_test

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/workload"
)

// cpu is the processor time of the process so far.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRestart opens a directory with the events of 33,000 jobs (a month
// of a small cluster) or 330,000.
func BenchmarkRestart(b *testing.B) {
	for _, jobs := range []int{33_000, 330_000} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			dir := b.TempDir()
			keep := func(_ context.Context, in round.Input) (round.Decision, error) {
				return round.Decision{Config: in.Incumbent, Ratio: 1}, nil
			}
			open := func() (*store.Store, *controller.Service) {
				repo, err := store.Open(dir, store.Options{})
				if err != nil {
					b.Fatal(err)
				}
				s, err := controller.NewService(controller.Options{Store: repo, Decide: keep})
				if err != nil {
					b.Fatal(err)
				}
				run(s, controller.Hooks{})
				return repo, s
			}
			repo, s := open()
			reg := controller.Registration{ID: "s", Type: "test", Params: serviceParams, Objective: "avg_jct",
				Cluster: workload.Uniform(4, 8), Policy: promptly(), Mode: controller.Auto}
			if _, err := s.Register(context.Background(), controller.Call{}, reg); err != nil {
				b.Fatal(err)
			}
			var batch []workload.Event
			for i := range jobs {
				at := time.Duration(i) * 10 * time.Second
				for k, kind := range []workload.EventKind{workload.Submitted, workload.Started, workload.Finished} {
					e := submission(fmt.Sprintf("%d-%d", i, k), at+time.Duration(k)*time.Minute)
					e.Kind, e.Job.ID = kind, fmt.Sprint("job-", i)
					batch = append(batch, e)
				}
				if len(batch) >= 3000 || i == jobs-1 {
					if _, err := s.Ingest(context.Background(), controller.Call{}, "s", batch); err != nil {
						b.Fatal(err)
					}
					batch = batch[:0]
				}
			}
			s.Close()
			_ = repo.Close()
			var served, rebuilt time.Duration // processor time
			var heap runtime.MemStats
			for b.Loop() {
				runtime.GC()
				began := cpu()
				repo, s := open()
				if _, err := s.Current("s", ""); err != nil {
					b.Fatal(err)
				}
				served += cpu() - began
				<-s.Rebuilt()
				rebuilt += cpu() - began
				runtime.GC()
				runtime.ReadMemStats(&heap)
				s.Close()
				_ = repo.Close()
			}
			b.ReportMetric(served.Seconds()/float64(b.N), "cpu-s/served")
			b.ReportMetric(rebuilt.Seconds()/float64(b.N), "cpu-s/rebuilt")
			b.ReportMetric(float64(heap.HeapAlloc)/(1<<20), "MiB-live/rebuilt")
			b.ReportMetric(float64(3*jobs)/(b.Elapsed().Seconds()/float64(b.N)), "events/s")
		})
	}
}
