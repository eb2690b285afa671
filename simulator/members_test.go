package simulator

import (
	"context"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// A group fares as its members would that came together, on GPUs of any nodes.
func TestGroupFaresAsItsMembers(t *testing.T) {
	c := workload.Uniform(4, 2)
	play := func(jobs ...workload.Job) []Outcome {
		t.Helper()
		w, err := workload.New("w", time.Time{}, jobs)
		if err != nil {
			t.Fatal(err)
		}
		var s Sim
		if err := s.Start(c, w, &inOrder{}, Options{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		return s.Outcomes(nil)
	}
	job := func(id string, submit, seconds, gpus, members int) workload.Job {
		return workload.Job{ID: id, Key: "k", Submit: time.Duration(submit) * time.Second,
			Duration: time.Duration(seconds) * time.Second, GPUs: workload.GPUs(gpus * members),
			Members: int32(members)}
	}
	// One GPU of every node is taken: four single GPUs are free on four nodes.
	var busy []workload.Job
	for i := range 4 {
		busy = append(busy, job("w"+string(rune('a'+i)), 0, 10, 2, 1)) // fills a node
	}
	for i := range 8 {
		busy = append(busy, job("x"+string(rune('a'+i)), 1, 100+100*(i%2), 1, 1))
	}
	alone := play(append(busy, job("a", 2, 500, 1, 1), job("b", 2, 500, 1, 1), job("c", 2, 500, 1, 1),
		job("d", 2, 500, 1, 1))...)
	group := play(append(busy, job("a", 2, 500, 1, 4))...)
	g := group[len(group)-1]
	if g.Members != 4 || g.GPUs != 4 || g.Spread {
		t.Errorf("group %+v", g)
	}
	for _, o := range alone[len(alone)-4:] {
		if o.End != g.End || o.Start != g.Start || o.Wait != g.Wait || o.Attained*4 != g.Attained ||
			o.Floor != g.Floor || o.Rho != g.Rho {
			t.Errorf("alone %+v\nin a group %+v", o, g)
		}
	}
	one, four := Describe(alone), Describe(group)
	if one.Jobs != four.Jobs || one.AvgJCT != four.AvgJCT || one.P95JCT != four.P95JCT || one.FTFLe1 != four.FTFLe1 ||
		one.AvgQueue != four.AvgQueue {
		t.Errorf("described as %+v\nand %+v", one, four)
	}
}

// A group that finds no place for one member starts none and takes nothing.
func TestGroupStartsWholeOrNot(t *testing.T) {
	c := workload.Uniform(2, 4)
	w, err := workload.New("w", time.Time{}, []workload.Job{
		{ID: "a", Duration: time.Hour, GPUs: workload.GPUs(3)},
		{ID: "b", Submit: 1, Duration: time.Hour, GPUs: workload.GPUs(3)},
		// two are free, one on each node
		{ID: "pairs", Submit: 2, Duration: time.Hour, GPUs: workload.GPUs(4), Members: 2},
		{ID: "c", Submit: 3, Duration: time.Minute, GPUs: workload.GPUs(1)},
		{ID: "d", Submit: 4, Duration: time.Minute, GPUs: workload.GPUs(1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	var s Sim
	if err := s.Start(c, w, &inOrder{}, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := s.RunUntil(context.Background(), 10); err != nil {
		t.Fatal(err)
	}
	if s.JobRunning(2) || !s.JobRunning(3) || !s.JobRunning(4) || s.Free() != 0 || s.Active() != 6 {
		t.Errorf("pairs run: %v, %d GPUs free, %d active", s.JobRunning(2), s.Free(), s.Active())
	}
	if s.JobMembers(2) != 2 || s.JobGPUs(2) != 2 || s.JobDemand(2) != 4 {
		t.Error("what is asked about a group")
	}
	if err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if o := s.Outcomes(nil)[2]; o.Start != time.Hour+1 && o.Start != time.Hour {
		t.Errorf("pairs started at %v", o.Start)
	}
}
