package durations

import (
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	tenantEnds    = 5  // of the latest ends of its tenant's jobs shown
	tenantBatches = 3  // of its tenant's batches before its own shown
	showNear      = 4  // neighbours in submission shown each way
	showEnded     = 3  // of the nearest neighbours that have ended shown each way
	near          = 24 // neighbours in submission looked at each way
)

// Features are the columns of a row, in order: the job, its tenant's past, its batch, its
// neighbours in submission, the recurrence of its key, user and width, and estimates of the
// class from all these (survival). Of the paper's Table 2 they leave out everybody's latest
// submissions and ends. Lengths of time are ln(1 + seconds).
var Features = func() (out []string) {
	add := func(names ...string) { out = append(out, names...) }
	each := func(n int, format string, names ...string) {
		for i := 1; i <= n; i++ {
			for _, name := range names {
				add(fmt.Sprintf(format, i) + name)
			}
		}
	}
	add("ran", "since_submit", "gpus")
	add("tenant_gap")
	each(tenantEnds, "tenant_end%d_", "ago", "ran", "gpus")
	each(tenantBatches, "tenant_batch%d_", "age", "size", "ran", "ended")
	add("batch_age", "batch_size", "batch_place", "batch_ended", "batch_mean_ran", "batch_spread",
		"batch_last_ran", "batch_last_ago", "batch_first_ran", "batch_first_ended", "batch_pace")
	for _, way := range []string{"before", "after"} {
		each(showNear, way+"%d_", "gap", "ran", "same_gpus", "ended")
		each(showEnded, way+"_ended%d_", "ran", "gap")
	}
	for _, g := range []string{"key", "user"} {
		add(g+"_size", g+"_ended", g+"_mean_ran", g+"_last_ran")
	}
	add(similarFeature)
	for _, g := range []string{"near", "tenant", "batches", "width"} {
		for c := range Classes {
			add(fmt.Sprintf("%s_p%d", g, c))
		}
	}
	add("near_weight")
	for _, g := range []string{"key", "kind"} {
		for c := range Classes {
			add(fmt.Sprintf("%s_p%d", g, c))
		}
	}
	return out
}()

const (
	ranFeature     = "ran"
	similarFeature = "similar_ran"
	keyFeature     = "key_p0" // the first of Classes
)

// column finds a feature by name.
func column(name string) int {
	if i := slices.Index(Features, name); i >= 0 {
		return i
	}
	panic("durations: no feature is called " + name)
}

var missing = math.NaN()

// row writes features one after the other.
type row struct {
	dst []float64
	n   int
}

func (r *row) put(v float64) { r.dst[r.n] = v; r.n++ }

func (r *row) skip(n int) {
	for range n {
		r.put(missing)
	}
}

// span is a length of time as a feature: ln(1 + seconds).
func span(d time.Duration) float64 { return math.Log1p(max(0, d.Seconds())) }

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Row writes the features at the tracker's instant of job i of the history,
// which has been submitted. dst has len(Features) values; NaN is
// unknown.
func (t *Tracker) Row(dst []float64, i int) {
	if i < 0 || i >= t.arrived || len(dst) != len(Features) {
		panic("durations: a row of a job to come, or of a wrong length")
	}
	r := row{dst: dst}
	n, q, rec := int32(i), &t.jobs[i], &t.history[i]
	ran := t.ran(n)
	r.put(span(ran))
	r.put(span(t.at - rec.Submit))
	r.put(float64(rec.GPUs) / 1000)
	t.tenantPast(&r, q, rec)
	t.batchPast(&r, q, rec)
	for way := range 2 {
		t.neighbours(&r, q, rec, way)
	}
	t.recurrence(&r, q.key)
	t.recurrence(&r, q.user)
	r.put(math.Log1p(t.similar(n, ran)))
	t.survival(&r, n, ran)
	if r.n != len(dst) {
		panic("durations: a row does not have the features it names")
	}
}

func (t *Tracker) tenantPast(r *row, q *tracked, rec *Record) {
	g := &t.groups[q.tenant]
	if q.before == none {
		r.skip(1)
	} else {
		r.put(span(rec.Submit - t.history[q.before].Submit))
	}
	for n := int32(1); n <= tenantEnds; n++ {
		e := g.latest(n)
		if e == none {
			r.skip(3)
			continue
		}
		h := &t.history[e]
		r.put(span(t.at - h.Until))
		r.put(span(h.Ran))
		r.put(float64(h.GPUs) / 1000)
	}
	n := t.batches[q.batch].before
	for range tenantBatches {
		if n == none {
			r.skip(4)
			continue
		}
		b := &t.batches[n]
		r.put(span(t.at - t.history[b.last].Submit))
		r.put(float64(b.size))
		if b.ended > 0 {
			r.put(b.sumLn / float64(b.ended))
		} else {
			r.put(span(t.ran(b.first)))
		}
		r.put(float64(b.ended) / float64(b.size))
		n = b.before
	}
}

func (t *Tracker) batchPast(r *row, q *tracked, rec *Record) {
	b := &t.batches[q.batch]
	first := &t.history[b.first]
	r.put(span(t.at - first.Submit))
	r.put(float64(b.size))
	r.put(span(rec.Submit - first.Submit))
	r.put(float64(b.ended))
	if b.ended == 0 {
		r.skip(4)
	} else {
		n := float64(b.ended)
		mean := b.sumLn / n
		h := &t.history[b.lastEnded]
		r.put(mean)
		r.put(math.Sqrt(max(0, b.sumLn2/n-mean*mean)))
		r.put(span(h.Ran))
		r.put(span(t.at - h.Until))
	}
	r.put(span(t.ran(b.first)))
	r.put(flag(t.jobs[b.first].ended))
	r.put(span(t.history[b.last].Submit-first.Submit) - math.Log(float64(b.size)))
}

func (t *Tracker) neighbours(r *row, q *tracked, rec *Record, way int) {
	gap := func(h *Record) float64 { return span(max(h.Submit-rec.Submit, rec.Submit-h.Submit)) }
	n := q.next(way)
	for range showNear {
		if n == none {
			r.skip(4)
			continue
		}
		h, j := &t.history[n], &t.jobs[n]
		r.put(gap(h))
		r.put(span(t.ran(n)))
		r.put(flag(j.width == q.width))
		r.put(flag(j.ended))
		n = j.next(way)
	}
	found := 0
	n = q.next(way)
	for d := 0; d < near && n != none && found < showEnded; d++ {
		if j := &t.jobs[n]; j.ended {
			r.put(span(t.history[n].Ran))
			r.put(gap(&t.history[n]))
			found++
		}
		n = t.jobs[n].next(way)
	}
	r.skip(2 * (showEnded - found))
}

func (t *Tracker) recurrence(r *row, n int32) {
	if n == none {
		r.skip(4)
		return
	}
	g := &t.groups[n]
	r.put(float64(g.size))
	r.put(float64(g.ended))
	if g.ended == 0 {
		r.skip(2)
		return
	}
	r.put(g.sumLn / float64(g.ended))
	r.put(span(t.history[g.latest(1)].Ran))
}
