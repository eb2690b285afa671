package elastic

import (
	"math"

	"github.com/autosched/autosched/simulator"
)

// sharing is the memory of a decision on who gets how many GPUs.
type sharing struct {
	room  *simulator.Room // of the tenants, if their quotas are strict
	left  int             // GPUs
	open  []simulator.ID  // jobs that may have more
	heap  []offer
	worth float64 // of the best GPU that was not given the last time, 0 if there was none
	kinds []kind
	busy  []int32 // kinds of open jobs
	tied  []int32 // scratch of level
}

// offer is the gain of one more GPU.
type offer struct {
	gain float64
	id   simulator.ID
}

func (a offer) before(b offer) bool { return a.gain > b.gain || a.gain == b.gain && a.id < b.id }

// kind is the open jobs whose gains are the same.
type kind struct {
	jobs  int // open, each on so many GPUs
	gpus  int32
	last  int32 // GPUs from which start looked the last time
	most  int32
	stop  int32 // where the next is worth nothing, or most
	falls bool  // its gains do, up to there
	first simulator.ID
	gain  float64 // of the next GPU, -Inf if it is not to be had
	tied  bool
}

func (x *sharing) reset() { x.kinds, x.busy, x.worth = x.kinds[:0], x.busy[:0], 0 }

// give gives a job a GPU if there is one left for it.
func (x *sharing) give(j simulator.ID) bool {
	if x.left < 1 || x.room != nil && !x.room.Give(j, 1) {
		return false
	}
	x.left--
	return true
}

// aim sets every job's target.
func (p *Policy) aim() {
	p.room, p.left = nil, p.s.Cluster().TotalGPUs()
	if p.s.Quota() == simulator.QuotaStrict {
		p.room = p.s.Room()
	}
	p.open = p.open[:0]
	now := p.s.Now()
	for i := range p.run.Len() {
		j := p.run.At(i).ID
		x := &p.jobs[j]
		if now < x.until {
			x.target = x.held
			p.quiet = false
		} else {
			x.target = 1
			p.open = append(p.open, j)
		}
		p.left -= int(x.target)
		if p.room != nil {
			p.room.Keep(j, int(x.target))
		}
	}
	running, refused := len(p.open), false
	for p.given = 0; p.given < p.wait.Len() && p.left > 0; p.given++ {
		j := p.wait.At(p.given).ID
		if p.jobs[j].target = 0; p.give(j) {
			p.jobs[j].target = 1
			p.open = append(p.open, j)
		} else {
			refused = true
		}
	}
	switch {
	case p.left == 0:
	case p.room != nil:
		refused = p.greedy() || refused
	case !p.level(running) && !p.window():
		p.greedy()
	}
	if (p.left == 0 || refused) && !p.chooser.Steady() {
		p.quiet = false // otherwise all have what they may have, whatever the gains
	}
}

// gain is what a job's next GPU is worth, if it may have one.
func (p *Policy) gain(j simulator.ID) (float64, bool) {
	x := &p.jobs[j]
	if x.target >= x.most {
		return 0, false
	}
	gain := p.chooser.Gain(j, int(x.target))
	return gain, gain > 0
}

// greedy gives the GPUs left one by one to the open job with the largest gain. It
// reports whether a tenant's quota refused any.
func (p *Policy) greedy() (refused bool) {
	p.heap = p.heap[:0]
	for _, j := range p.open {
		if gain, ok := p.gain(j); ok {
			p.heap = append(p.heap, offer{gain, j})
		}
	}
	refused, _ = p.deal()
	return refused
}

// deal gives the GPUs left to those in the heap. It reports whether a tenant's
// quota refused any, and the gain of the last.
func (p *Policy) deal() (refused bool, last float64) {
	for i := len(p.heap)/2 - 1; i >= 0; i-- {
		p.down(i)
	}
	last = math.Inf(1)
	for p.left > 0 && len(p.heap) > 0 {
		j := p.heap[0].id
		gain, more := 0.0, false
		if p.give(j) {
			last = p.heap[0].gain
			p.jobs[j].target++
			gain, more = p.gain(j)
		} else {
			refused = true
		}
		if more {
			p.heap[0].gain = gain
		} else {
			last := len(p.heap) - 1
			p.heap[0] = p.heap[last]
			p.heap = p.heap[:last]
		}
		p.down(0)
	}
	p.worth = 0
	if len(p.heap) > 0 {
		p.worth = p.heap[0].gain
	}
	return refused, last
}

// down puts an offer where it belongs below its place.
func (p *Policy) down(i int) {
	h := p.heap
	if i >= len(h) {
		return
	}
	x := h[i]
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h[c+1].before(h[c]) {
			c++
		}
		if !h[c].before(x) {
			break
		}
		h[i] = h[c]
		i = c
	}
	h[i] = x
}

// level does what greedy does by kinds: of those with the largest gain all open
// jobs get a GPU, or the first by ID for which there are enough. The open jobs are
// so many running ones and then waiting ones, each in order of ID. It gives up,
// with nothing changed, where gains are each job's own or do not fall from one GPU
// to the next.
func (p *Policy) level(running int) bool {
	if !p.gather() {
		return false
	}
	left, all := p.left, 0
	for _, i := range p.busy {
		all += p.kinds[i].jobs * int(p.kinds[i].stop-1)
	}
	if all <= left {
		for _, j := range p.open {
			p.jobs[j].target = p.kinds[p.jobs[j].kind].stop
		}
		p.left -= all
		return true
	}
	left -= p.start(left)
	for left > 0 {
		gain, jobs := math.Inf(-1), 0
		for _, i := range p.busy {
			switch k := &p.kinds[i]; {
			case k.gain > gain:
				gain, jobs = k.gain, k.jobs
				p.tied = append(p.tied[:0], i)
			case k.gain == gain:
				jobs += k.jobs
				p.tied = append(p.tied, i)
			}
		}
		if !(gain > 0) {
			break
		}
		p.worth = gain
		for _, i := range p.tied {
			k := &p.kinds[i]
			k.gpus++
			if k.gain = p.next(k); k.gain >= gain {
				return false
			}
		}
		if jobs > left {
			p.part(left, running)
			p.left = 0
			return true
		}
		left -= jobs
	}
	for _, j := range p.open {
		p.jobs[j].target = p.kinds[p.jobs[j].kind].gpus
	}
	p.left = left
	return true
}

// start gives the open jobs of each kind the GPUs that are worth more than any in
// the window, if there are so many left, and returns their number.
func (p *Policy) start(left int) int {
	high, sum := p.worth*above, 0
	if p.worth <= 0 {
		return 0
	}
	for _, i := range p.busy {
		k := &p.kinds[i]
		if !k.falls {
			return 0
		}
		t := max(1, min(k.last, k.stop))
		for t < k.stop && p.chooser.Gain(k.first, int(t)) > high {
			t++
		}
		for t > 1 && p.chooser.Gain(k.first, int(t-1)) <= high {
			t--
		}
		k.last = t
		if sum += k.jobs * int(t-1); sum > left {
			return 0
		}
	}
	for _, i := range p.busy {
		k := &p.kinds[i]
		k.gpus = k.last
		k.gain = p.next(k)
	}
	return sum
}

// gather counts the open jobs of each kind.
func (p *Policy) gather() bool {
	for _, i := range p.busy {
		p.kinds[i].jobs = 0
	}
	p.busy = p.busy[:0]
	for _, j := range p.open {
		x := &p.jobs[j]
		if x.kind < 0 {
			return false
		}
		for int(x.kind) >= len(p.kinds) {
			p.kinds = append(p.kinds, kind{})
		}
		k := &p.kinds[x.kind]
		if k.jobs == 0 {
			p.busy = append(p.busy, x.kind)
			stop, falls := p.chooser.Stop(j, int(x.most))
			*k = kind{gpus: 1, most: x.most, first: j, last: k.last, stop: int32(stop), falls: falls}
			k.gain = p.next(k)
		}
		k.jobs++
	}
	return true
}

// next is what the next GPU is worth for jobs of a kind.
func (p *Policy) next(k *kind) float64 {
	if k.gpus < k.most {
		if gain := p.chooser.Gain(k.first, int(k.gpus)); gain > 0 {
			return gain
		}
	}
	return math.Inf(-1)
}

// part sets the targets where there are only so many GPUs for the tied kinds, which
// count one more already: those behind stay one below.
func (p *Policy) part(gpus, running int) {
	for _, i := range p.tied {
		p.kinds[i].tied = true
	}
	a, b := p.open[:running], p.open[running:]
	for len(a)+len(b) > 0 {
		from := &a
		if len(a) == 0 || len(b) > 0 && b[0] < a[0] {
			from = &b
		}
		x := &p.jobs[(*from)[0]]
		*from = (*from)[1:]
		k := &p.kinds[x.kind]
		x.target = k.gpus
		if !k.tied {
			continue
		}
		if gpus == 0 {
			x.target--
		} else {
			gpus--
		}
	}
	for _, i := range p.tied {
		p.kinds[i].tied = false
	}
}
