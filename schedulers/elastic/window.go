package elastic

// The gains at which GPUs run out are about the same from one decision to the
// next, so only those in a window around the last need a closer look.
const (
	above = 1.1
	below = .8
	slack = 1e-8 // more than Rough may be off
)

// window does what greedy does where gains are known roughly: GPUs that are surely
// worth more than any in the window are given without comparing them, and those
// surely worth less are not looked at. It reports whether the GPUs ran out in the
// window; otherwise nothing has changed.
func (p *Policy) window() bool {
	if p.rough == nil {
		return false
	}
	all := 0
	for _, j := range p.open {
		x := &p.jobs[j]
		if !p.rough.Falls(j, int(x.most)) {
			return false
		}
		all += int(x.most) - 1
	}
	if all <= p.left {
		for _, j := range p.open {
			p.jobs[j].target = p.jobs[j].most
		}
		p.left -= all
		return true
	}
	left := p.left
	if p.worth > 0 && p.look(p.worth*above, p.worth*below) {
		return true
	}
	p.left = left
	for _, j := range p.open {
		p.jobs[j].target = 1
	}
	return false
}

// look is window with gains from low to high in it.
func (p *Policy) look(high, low float64) bool {
	passed := false
	p.heap = p.heap[:0]
	for _, j := range p.open {
		x := &p.jobs[j]
		t := max(1, min(x.shared, x.most))
		for t < x.most && p.rough.Rough(j, int(t)) > high*(1+slack) {
			t++
		}
		for t > 1 && p.rough.Rough(j, int(t-1)) <= high*(1+slack) {
			t--
		}
		if p.left -= int(t) - 1; p.left < 0 {
			return false
		}
		x.target, x.shared = t, t
		switch {
		case t == x.most:
		case p.rough.Rough(j, int(t)) < low*(1-slack):
			passed = true
		default:
			if gain, ok := p.gain(j); ok {
				p.heap = append(p.heap, offer{gain, j})
			}
		}
	}
	_, last := p.deal()
	return p.worth < high && (!passed || p.left == 0 && last > low)
}
