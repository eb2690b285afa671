package controller_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
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

// BenchmarkRounds decides a round of each of 8 schedulers at a time (-cpu 1,2 compares processors), beside reads of the
// configuration every millisecond. p99 is of the time from then to the answer.
func BenchmarkRounds(b *testing.B) {
	const n = 8
	tiresias, err := schedulers.Find("tiresias")
	if err != nil {
		b.Fatal(err)
	}
	repo, err := store.Open(b.TempDir(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer repo.Close()
	s, err := controller.NewService(controller.Options{Store: repo, Decide: round.DecideOnline})
	if err != nil {
		b.Fatal(err)
	}
	run(s, controller.Hooks{})
	defer s.Close()
	policy := promptly()
	policy.Settings = round.Settings{Rule: round.RulePaper, Guard: -1, Horizon: 2 * time.Hour, Futures: 2, Budget: 8,
		Seed: 7, Always: true}
	ids, jobs := make([]string, n), 0
	hour := func(h int) { // jobs of an hour of each scheduler, which make its round due
		for _, id := range ids {
			var all []workload.Event
			for i := range 30 {
				jobs++
				at := time.Duration(h)*time.Hour + time.Duration(i)*2*time.Minute
				for k, kind := range []workload.EventKind{workload.Submitted, workload.Started, workload.Finished} {
					e := submission(fmt.Sprint(jobs, kind), at+time.Duration(k)*time.Second)
					e.Kind, e.Job.ID, e.Job.GPUs = kind, fmt.Sprint("job-", jobs), workload.GPUs(1+i%8)
					all = append(all, e)
				}
			}
			if _, err := s.Ingest(context.Background(), controller.Call{}, id, all); err != nil {
				b.Fatal(err)
			}
		}
	}
	decided := func() (rounds int64) {
		for _, id := range ids {
			_, st, _ := s.Scheduler(id)
			rounds += st.Rounds
		}
		return rounds
	}
	for i := range ids {
		ids[i] = fmt.Sprint("s", i)
		if _, err := s.Register(context.Background(), controller.Call{}, controller.Registration{ID: ids[i],
			Type: tiresias.Name, Params: tiresias.Space.Params(), Rules: tiresias.Space.Rules(), Objective: "avg_jct",
			Cluster: workload.Uniform(1, 8), Policy: policy, Mode: controller.Recommend}); err != nil {
			b.Fatal(err)
		}
	}
	p99 := func(until func(reads int) bool) float64 {
		var took []time.Duration
		for began := time.Now(); !until(len(took)); {
			at := began.Add(time.Duration(len(took)) * time.Millisecond)
			time.Sleep(time.Until(at))
			if _, err := s.Current(ids[0], ""); err != nil {
				b.Error(err)
			}
			took = append(took, time.Since(at))
		}
		slices.Sort(took)
		return float64(took[len(took)*99/100].Microseconds())
	}
	rounds := func(h int) {
		for decided() < int64(n*h) {
			time.Sleep(time.Millisecond)
		}
	}
	hour(0)
	hour(1)
	rounds(1)
	alone, h := p99(func(reads int) bool { return reads >= 1000 }), 1
	before, used := decided(), cpu()
	done, beside := make(chan bool), make(chan float64)
	go func() { beside <- p99(func(int) bool { return isClosed(done) }) }()
	for b.Loop() {
		h++
		hour(h)
		rounds(h)
	}
	all := float64(decided() - before)
	close(done)
	b.ReportMetric(all/b.Elapsed().Seconds(), "rounds/s")
	b.ReportMetric((cpu()-used).Seconds()/all, "cpu-s/round")
	b.ReportMetric(alone, "us-p99-idle")
	b.ReportMetric(<-beside, "us-p99-beside")
}

func isClosed(c <-chan bool) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
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
