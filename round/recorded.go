package round

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Recorded is the jobs of a cluster that were submitted before an instant, as far as they were known then.
type Recorded struct {
	// From is the instant from which on jobs count, those before it run alone; 0 is the first.
	From time.Duration
	At   time.Duration // since Zero
	Zero time.Time
	Jobs []durations.Record // in order of submission
}

// Recorded returns the jobs of the ledger that the daily rule replays.
func (s *Snapshot) Recorded() Recorded {
	return Recorded{At: s.State.At, Zero: s.Zero,
		Jobs: durations.Observed(s.Ledger, s.State.At, ReplayMemory, s.work())}
}

// RecordedOf returns the jobs of a trace that were submitted before an instant. A job began once its recorded wait was
// over, at once if none is recorded, and its run time is known if it had ended by the instant.
func RecordedOf(w *workload.Workload, at time.Duration) Recorded {
	out := Recorded{At: at, Zero: w.Zero()}
	jobs := w.Window(at-ReplayMemory, at).Jobs()
	all := durations.Unqueued(jobs)
	for i := range all {
		if r := &all[i]; r.HasWait {
			r.Begin, r.Until = r.Begin+r.Wait, r.Until+r.Wait
		}
	}
	out.Jobs = durations.Known(all, at)
	return out
}

// first is the instant from which on submissions are known: that of the first job, but for a hundredth of them, which
// may have been running for long when the records began. It is At if there is no job.
func (h *Recorded) first() time.Duration {
	if len(h.Jobs) == 0 {
		return h.At
	}
	first := h.Jobs[len(h.Jobs)/100].Submit
	if h.From != 0 {
		first = max(first, h.From)
	}
	return first
}

const (
	day = 24 * time.Hour
	// stretchLength is the length of a stretch. Stretches begin at multiples of it since the Unix epoch, so that a
	// stretch that has passed stays the same from day to day.
	stretchLength = 5 * day
	// stretches is the number of stretches that count, leastOfStretch how much of one has to have passed.
	stretches      = 4
	leastOfStretch = 2 * day
	// Warmup is how long jobs run without counting before a simulated window: the cluster begins empty, and wide jobs
	// may wait for weeks.
	Warmup = 14 * day
	// warming is the same before most replays of a stretch, shorter because there are many.
	warming = 4 * day
	// mostRunIn is the longest time before the first stretch. Submissions that long before it are known on each day of
	// the present stretch, so that replays stay the same.
	mostRunIn = 6 * day
	// schooling is the time before warming whose ended jobs policies know.
	schooling = 4 * day
	// replays is the number of replays of a stretch, replayJitter the most by which they move a submission: which
	// configuration is in force when a batch arrives decides more than it would if the days came again.
	replays      = 3
	replayJitter = 10 * time.Minute
	// longestReplayed bounds run times: a job that runs for longer outlasts the stretch all the same.
	longestReplayed = stretchLength
)

// stretch is a part of the history that is replayed: the jobs submitted in [from, to) count.
type stretch struct{ from, to time.Duration }

// stretches are the last ones, oldest first.
func (h *Recorded) stretches() []stretch {
	first := h.first()
	from := h.begun()
	var out []stretch
	for ; len(out) < stretches && from+stretchLength > first; from -= stretchLength {
		s := stretch{max(from, first), min(from+stretchLength, h.At)}
		if s.to-s.from >= leastOfStretch {
			out = append(out, s)
		}
	}
	slices.Reverse(out)
	return out
}

// passed are the stretches that have ended, or all if none has.
func (h *Recorded) passed(all []stretch) []stretch {
	if n := len(all); n > 1 && all[n-1].to > h.begun() {
		return all[:n-1]
	}
	return all
}

// begun is the instant at which the stretch began that At is in.
func (h *Recorded) begun() time.Duration {
	zero := time.Duration(h.Zero.Unix()%int64(stretchLength/time.Second)) * time.Second // in its stretch
	passed := (zero + h.At) % stretchLength
	if passed < 0 {
		passed += stretchLength
	}
	return h.At - passed
}

// tape replays stretches of a history. Those that have passed are replayed as they were known when the last one had, so
// that they stay the same until the next one has.
type tape struct {
	*Recorded
	before []durations.Record // as they were known when the present stretch began
	known  *durations.Outlook // from which the run times of others are drawn
	seed   uint64
	from   time.Duration                     // no replay begins before
	pasts  map[time.Duration]*simulator.Past // by the instant at which replays begin
	whole  map[replayOf]Scenario             // the ones in which every job fits
}

// replayOf identifies a replay of a tape.
type replayOf struct {
	stretch
	runIn time.Duration
	k     int
}

func (h *Recorded) tape(seed uint64) *tape {
	t := &tape{Recorded: h, before: durations.Known(h.Jobs, h.begun()), seed: seed, from: math.MinInt64,
		pasts: map[time.Duration]*simulator.Past{}, whole: map[replayOf]Scenario{}}
	if all := h.stretches(); len(all) > 0 {
		t.from = all[0].from - mostRunIn
	}
	recent := slices.Clone(t.before)
	recent = slices.DeleteFunc(recent, func(r durations.Record) bool { return r.Submit < h.begun()-Memory })
	for i := range recent {
		if r := &recent[i]; !r.Ended {
			r.Ran = steady(r.Ran)
		}
	}
	if t.known = durations.FromHistory(recent); t.known.Len() == 0 {
		t.known = durations.FromHistory(h.Jobs)
	}
	return t
}

// steady is a time that a job has run for at least, and that stays the same until it has run for twice as long.
func steady(ran time.Duration) (since time.Duration) {
	for next := time.Minute; next <= ran; next *= 2 {
		since = next
	}
	return since
}

// draw returns the run time of a job that has not ended, in replay k. It stays the same until the job has
// run for longer, or for twice as long.
func (t *tape) draw(r *durations.Record, k int) time.Duration {
	name := fnv.New64a()
	_, _ = name.Write([]byte(r.ID))
	draw := rng.Stream("not ended", t.seed, uint64(k), name.Sum64())
	const tries = 64
	for range tries {
		if x := t.known.Draw(draw, r.Job, steady(r.Ran)); x > r.Ran {
			return x
		}
	}
	return t.known.Draw(draw, r.Job, r.Ran)
}

// replay is the jobs of a stretch that fit, submitted up to replayJitter later, with probes. It begins with an empty
// cluster, runIn before the stretch, at most mostRunIn before the first one, or later if the history does.
func (t *tape) replay(s stretch, runIn time.Duration, fits func(*workload.Job) bool, k int) Scenario {
	if x, ok := t.whole[replayOf{s, runIn, k}]; ok && allFit(x.Arrivals.Jobs(), fits) {
		return x
	}
	records, all := t.before, true
	if s.to > t.begun() {
		records = t.Jobs
	}
	begin, at := max(s.from-runIn, t.from), uint64(t.Zero.Add(s.from).Unix())
	draw := rng.Stream("jitter", t.seed, uint64(k), at)
	since := func(at time.Duration) int {
		return sort.Search(len(records), func(i int) bool { return records[i].Submit >= at })
	}
	records = records[since(begin):max(since(begin), since(s.to))]
	jobs := make([]workload.Job, 0, len(records)+2) // with the probes
	for i := range records {
		r := &records[i]
		if r.Ended && r.Ran <= 0 {
			continue
		}
		later := time.Duration(draw.Int64N(int64(replayJitter))) // also if it does not fit: it fits a larger cluster
		if !fits(r.Job) {
			all = false
			continue
		}
		j := *r.Job
		j.Submit += later
		if j.Duration = r.Ran; !r.Ended {
			j.Duration = t.draw(r, k)
			if limit := j.Request().TimeLimit; limit > 0 {
				j.Duration = min(j.Duration, max(limit, r.Ran))
			}
		}
		j.Duration, j.Status = max(time.Second, min(j.Duration, longestReplayed)), workload.Unknown
		jobs = append(jobs, j)
	}
	jobs = append(jobs, probes(jobs, s, rng.Stream("probe", t.seed, uint64(k), at))...)
	workload.SortBySubmit(jobs)
	w := workload.NewSorted(fmt.Sprintf("replay %d", k), t.Zero, jobs, false)
	x := Scenario{Arrivals: w, Past: t.past(s.from - runIn), Warmup: true, CountFrom: s.from}
	if all {
		t.whole[replayOf{s, runIn, k}] = x
	}
	return x
}

func allFit(jobs []workload.Job, fits func(*workload.Job) bool) bool {
	return !slices.ContainsFunc(jobs, func(j workload.Job) bool { return !fits(&j) })
}

// past is the jobs that policies know when replays begin, none where submissions before are not known.
func (t *tape) past(begin time.Duration) *simulator.Past {
	if known := t.pasts[begin]; known != nil {
		return known
	}
	var ended []simulator.EndedJob
	for i := range t.Jobs {
		if r := &t.Jobs[i]; begin >= t.from && r.Ended && r.Until <= begin && r.Submit > begin-schooling {
			ended = append(ended, simulator.EndedJob{Submit: r.Submit, End: r.Until, Key: r.Key, Tenant: r.Tenant,
				GPUs: r.GPUs.Whole(), RunTime: r.Ran, User: r.User, Requested: r.Requested})
		}
	}
	slices.SortStableFunc(ended, func(a, b simulator.EndedJob) int { return cmp.Compare(a.End, b.End) })
	t.pasts[begin] = simulator.NewPast(ended)
	return t.pasts[begin]
}
