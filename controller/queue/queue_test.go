package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// work runs pieces of a duration until the job's context ends or none is left, and returns the
// cause of its end.
func work(j *Job, pieces int, each time.Duration) error {
	for range pieces {
		if err := j.Run(func() error { time.Sleep(each); return nil }); err != nil {
			return err
		}
	}
	return nil
}

// enter adds a job without a limit.
func enter(t *testing.T, q *Queue, owner string) *Job {
	t.Helper()
	j, err := q.Enter(t.Context(), owner, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// A short job runs while a long one is under way, which then goes on.
func TestShortJobDoesNotWaitForALongOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		hog := enter(t, q, "hog")
		ended := make(chan time.Time)
		go func() {
			if err := work(hog, 1000, time.Second/10); err != nil {
				t.Error(err)
			}
			hog.Leave()
			ended <- time.Now()
		}()
		time.Sleep(10 * time.Second)
		began := time.Now()
		for range 5 {
			j := enter(t, q, "victim")
			if err := work(j, 5, time.Second/10); err != nil {
				t.Error(err)
			}
			if used := j.Leave(); used != time.Second/2 {
				t.Errorf("used %v", used)
			}
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("5 jobs of 0.5 s took %v beside another", took)
		}
		if rest := (<-ended).Sub(began); rest > 93*time.Second {
			t.Errorf("the long job of 90 s more took %v", rest)
		}
	})
}

// Pieces run at the same time as long as there are turns: those of one job alone, and of each job one beside others.
func TestPiecesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const turns = 3
		q := New(Options{Turns: turns})
		var mu sync.Mutex
		running, all, most := map[string]int{}, 0, map[int]int{} // by the number of jobs
		job := func(owner string, beside int) {
			j := enter(t, q, owner)
			defer j.Leave()
			var workers sync.WaitGroup
			for w := range 4 {
				workers.Go(func() {
					for range 20 {
						_ = j.Run(func() error {
							mu.Lock()
							running[owner]++
							if all++; all > turns {
								t.Errorf("pieces of %v run at once", running)
							}
							most[beside] = max(most[beside], running[owner])
							mu.Unlock()
							time.Sleep(time.Duration(1+w) * 300 * time.Millisecond)
							mu.Lock()
							running[owner]--
							all--
							mu.Unlock()
							return nil
						})
					}
				})
			}
			workers.Wait()
		}
		began := time.Now()
		job("alone", 0)
		// In any order of the pieces: a third of the work, and two thirds of the 24 s of one worker.
		if took := time.Since(began); took > 36*time.Second {
			t.Errorf("60 s of work took %v by %d turns", took, turns)
		}
		began = time.Now()
		var jobs sync.WaitGroup
		for n := range turns {
			jobs.Go(func() { job(fmt.Sprint(n), turns-1) })
		}
		jobs.Wait()
		if took := time.Since(began); took < 60*time.Second || took > 63*time.Second {
			t.Errorf("180 s of work took %v by %d turns", took, turns)
		}
		if most[0] != turns {
			t.Errorf("%d pieces of a job alone ran at once, want %d", most[0], turns)
		}
		if q.free != turns {
			t.Errorf("%d of %d turns are free", q.free, turns)
		}
	})
}

// A turn that comes free serves a waiting piece at once, also where slices have ended and shares are charged late.
func TestNoTurnIsIdle(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			q := New(Options{Turns: 3, Slice: 5 * time.Second})
			a, b, other := enter(t, q, "a"), enter(t, q, "b"), enter(t, q, "other")
			var all sync.WaitGroup
			var began []time.Duration // of the pieces that wait, by those that run
			start := time.Now()
			run := func(j *Job, after time.Duration, waits bool) {
				all.Go(func() {
					time.Sleep(after)
					err := j.Run(func() error {
						if waits {
							q.mu.Lock()
							began = append(began, time.Since(start))
							q.mu.Unlock()
						}
						time.Sleep(100 * time.Second)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			run(a, 0, false)
			run(b, 0, false)
			run(b, time.Second, true)    // within the slice
			run(a, 10*time.Second, true) // after it
			time.Sleep(50 * time.Second)
			other.Leave()
			all.Wait()
			a.Leave()
			b.Leave()
			if began[0] != 50*time.Second {
				t.Fatalf("a turn that was free from 50 s on served from %v on", began[0])
			}
		})
	}
}

// The jobs of owners get turns by their weights, whatever the number of turns.
func TestTurnsFollowWeights(t *testing.T) {
	for turns := 1; turns <= 4; turns++ {
		synctest.Test(t, func(t *testing.T) {
			q := New(Options{Turns: turns})
			ctx, cancel := context.WithCancel(t.Context())
			used := [2]time.Duration{}
			var mu sync.Mutex
			var all sync.WaitGroup
			for n := range 12 {
				all.Go(func() {
					for {
						j, err := q.Enter(ctx, fmt.Sprint(n%2), float64(1+2*(n%2)), 0)
						if err != nil {
							return
						}
						_ = work(j, 3, time.Second/3)
						took := j.Leave()
						mu.Lock()
						used[n%2] += took
						mu.Unlock()
					}
				})
			}
			time.Sleep(1000 * time.Second)
			cancel()
			all.Wait()
			if ratio := used[1].Seconds() / used[0].Seconds(); ratio < 2.9 || ratio > 3.1 {
				t.Errorf("%d turns: an owner of weight 3 used %v, one of weight 1 %v", turns, used[1], used[0])
			}
			if in := (used[0] + used[1]).Seconds() / 1000; in < float64(turns)-.1 {
				t.Errorf("%d turns: %.2f were used", turns, in)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, why := New(Options{Begun: 2}), errors.New("paused")
		one, two := enter(t, q, "one"), make(chan error)
		go func() { // waits
			_, err := q.Enter(t.Context(), "two", 1, 0)
			two <- err
		}()
		synctest.Wait()
		q.Cancel("two", why)
		if err := <-two; err != why {
			t.Errorf("a job that waits: %v", err)
		}
		q.Cancel("one", why)
		if err := work(one, 1, time.Second); err != why || context.Cause(one.Context()) != why {
			t.Errorf("a job with the turn: %v, %v", err, context.Cause(one.Context()))
		}
		one.Leave()
		three := enter(t, q, "three")
		go func() { // suspended
			j := enter(t, q, "four")
			defer j.Leave()
			two <- work(j, 10, time.Second)
		}()
		go func() { _ = work(three, 100, time.Second); three.Leave() }()
		time.Sleep(10 * time.Second)
		q.Cancel("four", why)
		if err := <-two; err != why && err != nil {
			t.Errorf("a job that began: %v", err)
		}
		q.Cancel("three", why)
		time.Sleep(10 * time.Minute)
		if begun, waiting := q.Len(); begun+waiting+len(q.shares.owners) > 0 {
			t.Errorf("%d begun and %d waiting jobs are left, %d owners", begun, waiting, len(q.shares.owners))
		}
	})
}

// The limit is of the time of a job's turns, not of its waits.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		other := enter(t, q, "other")
		go func() { _ = work(other, 60, time.Second); other.Leave() }()
		j, err := q.Enter(t.Context(), "o", 1, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := work(j, 1000, time.Second/10); err != ErrLimit {
			t.Error(err)
		}
		if used := j.Leave(); used < 10*time.Second || used > 11*time.Second {
			t.Errorf("used %v of 10 s", used)
		}
		time.Sleep(time.Minute)
	})
}

// No more jobs are begun at a time than asked for: a suspended one holds memory.
func TestBegunJobsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Begun: 3})
		var all sync.WaitGroup
		for n := range 10 {
			all.Go(func() {
				j := enter(t, q, fmt.Sprint(n))
				defer j.Leave()
				for range 20 {
					_ = work(j, 1, time.Second)
					if begun, _ := q.Len(); begun > 3 {
						t.Errorf("%d jobs have begun", begun)
					}
				}
			})
		}
		all.Wait()
	})
}

// Owners that always have jobs get time by their weights: the time used over the weight differs
// by no more than a slice and a piece each (Goyal, Vin, Cheng, theorem 1).
func TestSharesFollowWeights(t *testing.T) {
	const slice, longest = time.Second, 700 * time.Millisecond
	type owner struct {
		weight float64
		pieces [2]int           // of each of two jobs, so that one waits when the other ends
		each   [2]time.Duration // of a piece
		used   time.Duration
		tag    float64
	}
	rapid.Check(t, func(r *rapid.T) {
		owners := make([]owner, rapid.IntRange(2, 5).Draw(r, "owners"))
		for i := range owners {
			owners[i].weight = float64(rapid.IntRange(1, 50).Draw(r, "weight")) / 5
			for k := range 2 {
				owners[i].pieces[k] = rapid.IntRange(1, 30).Draw(r, "pieces")
				owners[i].each[k] = time.Duration(rapid.IntRange(1, 7).Draw(r, "tenths")) * longest / 7
			}
		}
		span := time.Duration(rapid.IntRange(100, 1000).Draw(r, "seconds")) * time.Second
		synctest.Test(t, func(t *testing.T) {
			q := New(Options{Slice: slice, Begun: 100})
			var mu sync.Mutex
			var all sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			for i := range owners {
				o, name := &owners[i], fmt.Sprint(i)
				for k := range 2 {
					all.Go(func() {
						for {
							j, err := q.Enter(ctx, name, o.weight, 0)
							if err != nil {
								return
							}
							_ = work(j, o.pieces[k], o.each[k])
							took := j.Leave()
							mu.Lock()
							o.used += took
							mu.Unlock()
						}
					})
				}
			}
			time.Sleep(span)
			q.mu.Lock()
			for i := range owners {
				owners[i].tag = q.shares.owners[fmt.Sprint(i)].tag
			}
			q.mu.Unlock()
			cancel()
			all.Wait()
		})
		for i, a := range owners {
			if a.used == 0 {
				r.Errorf("owner %d of weight %v was not served", i, a.weight)
			}
			for k, b := range owners {
				most := (slice + longest).Seconds() * (1/a.weight + 1/b.weight)
				if ahead := a.tag - b.tag; ahead > most {
					r.Errorf("owner %d of weight %v is %.2f ahead of %d of %v, at most %.2f", i, a.weight, ahead, k,
						b.weight, most)
				}
			}
		}
	})
}
